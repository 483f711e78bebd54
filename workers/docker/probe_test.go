package docker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// A health check doesn't hide a user's commands, and isn't one.
func TestExecBesideHealthCheck(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	x.start("a", dockerspec.With(schemas.Spec{
		Command: []string{"sleep", "1000000"},
	}, dockerspec.Options{HealthCmd: "touch /probed; sleep 100", HealthEach: 100 * time.Millisecond}))
	n := must[note](t)(x.d.notes.read("a"))
	look := func() (ids int, o driver.Observation) {
		t.Helper()
		got := must[client.ContainerInspectResult](t)(x.d.engine.ContainerInspect(t.Context(), n.Container, client.ContainerInspectOptions{}))
		return len(got.Container.ExecIDs), must[driver.Observation](t)(x.d.Observe(t.Context(), "a"))
	}
	end := time.Now().Add(drivertest.Limit)
	for {
		ids, o := look()
		if o.Execs != 0 {
			t.Fatalf("the health check counts: %+v", o)
		}
		if ids > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("there is no health check")
		}
	}
	made := must[client.ExecCreateResult](t)(x.d.engine.ExecCreate(t.Context(), n.Container, client.ExecCreateOptions{
		Cmd: []string{"sleep", "1000000"}, TTY: true, AttachStdout: true,
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := must[client.ExecAttachResult](t)(x.d.engine.ExecAttach(ctx, made.ID, client.ExecAttachOptions{TTY: true}))
	defer got.Close()
	for {
		if _, o := look(); o.Execs == 1 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a user's shell isn't seen")
		}
	}
}

// An engine calls each container unhealthy that was paused, until its next health check. A checkpoint
// says so, and the session isn't shown as unhealthy.
func TestPausedIsUnhealthyForTheEngine(t *testing.T) {
	t.Parallel()
	x := newTester(t)
	x.start("a", dockerspec.With(schemas.Spec{Command: []string{"sleep", "1000000"}}, dockerspec.Options{HealthCmd: "true", HealthEach: time.Hour}))
	_, got := x.capture("a", 2)
	if !strings.Contains(textOf(got.Warnings), "unhealthy until its next health check, within 1h0m0s") {
		t.Errorf("it warns of %q", textOf(got.Warnings))
	}
	if err := x.d.Thaw(t.Context(), drivertest.Fence("a", 2)); err != nil {
		t.Fatal(err)
	}
	if h := x.inspect("a").State.Health; h.Status != container.Unhealthy || h.FailingStreak != 0 {
		t.Errorf("for the engine it is %+v", h)
	}
	if o := must[driver.Observation](t)(x.d.Observe(t.Context(), "a")); o.Status != "" {
		t.Errorf("it is shown as %q", o.Status)
	}
}
