package docker

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// What became of containers while no driver watched: those that ended with their engine are lost,
// and their sessions say so; those that ended by themselves, or that someone stopped, have
// ended; those that the engine began again run.
func TestEngineStoppedUnwatched(t *testing.T) {
	t.Parallel()
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	x := testerOn(t, dockertest.New(t))
	const script = "trap 'exit 143' TERM; while ! [ -e /end ]; do sleep 0.01; done; exit 7" // what a signal ends has this status
	with := func(o dockerspec.Options) schemas.Spec {
		return dockerspec.With(schemas.Spec{Command: []string{"sh", "-c", script}}, o)
	}
	plain, ends, unless := with(dockerspec.Options{}), with(dockerspec.Options{}), with(dockerspec.Options{Restart: "unless-stopped"})
	for name, spec := range map[string]schemas.Spec{"stopped": plain, "ended": ends, "restarted": unless, "told": unless} {
		x.start(name, spec)
	}
	id := func(name string) string {
		return must[note](t)(x.d.notes.read(drivertest.Fence(name, 1).UID)).Container
	}
	x.sh("ended", "touch /end")
	if err := x.d.engine.awaitStopped(t.Context(), id("ended")); err != nil {
		t.Fatal(err)
	}
	must[client.ContainerStopResult](t)(x.e.Client.ContainerStop(t.Context(), id("told"), client.ContainerStopOptions{Timeout: new(int)}))
	if err := x.e.Stop(); err != nil {
		t.Fatal(err)
	}
	again := func() map[string]driver.Instance {
		t.Helper()
		if err := x.e.Run(); err != nil {
			t.Fatal(err)
		}
		x.d = open(t, x.e, x.d.notes.dir)
		found := map[string]driver.Instance{}
		for _, i := range must[[]driver.Instance](t)(x.d.Recover(context.Background())) {
			found[string(i.Name.Session)] = i
		}
		return found
	}
	found := again()
	for name, want := range map[string]struct {
		state driver.State
		lost  bool
		code  int
	}{"stopped": {driver.Exited, true, 143}, "ended": {driver.Exited, false, 7}, "restarted": {driver.Running, false, 0}, "told": {driver.Exited, false, 0}} {
		i := found[name]
		if i.State != want.state || i.Lost != want.lost || want.code > 0 && i.Exit.Code != want.code {
			t.Errorf("%s: it is %+v, %+v; want %+v", name, i, i.Exit, want)
		}
	}
	if i := found["stopped"]; i.Exit != nil && !strings.Contains(i.Exit.Reason, "the Docker engine was stopped") {
		t.Errorf("it says %q", i.Exit.Reason)
	}

	x.start("killed", ends)
	if err := x.e.Kill(); err != nil {
		t.Fatal(err)
	}
	if i := again()["killed"]; i.State != driver.Exited || !i.Lost {
		t.Errorf("an engine was killed: it is %+v, %+v", i, i.Exit)
	}
}

// Several ask the engine at once, and what one learnt is noted after what another learnt later.
// An engine that comes back and goes again is away twice.
func TestAbsenceIsNotedLate(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(-time.Hour)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	var a absence
	if a.covers(at(0)) {
		t.Error("it was away before anything was seen")
	}
	a.begin(at(100), at(100))
	if !a.covers(at(100.5)) {
		t.Error("it isn't away while it doesn't answer")
	}
	a.end(at(110), at(110))  // until now, an hour later
	a.begin(at(109), at(99)) // was asked before, and is noted after
	if !a.covers(at(99.5)) || a.covers(at(0)) {
		t.Errorf("noted late, it is %v", a.spans)
	}
	back := time.Now()
	a.begin(back, back)
	if n := len(a.spans); n != 2 {
		t.Errorf("away again, it has %d absences", n)
	}
	for _, x := range []time.Time{at(99.5), at(200), back.Add(time.Millisecond)} {
		if !a.covers(x) {
			t.Errorf("away again, it wasn't away at %s: %v", x, a.spans)
		}
	}
}

// A machine's clock goes forward at once: it had none when it was started, or stood still as a
// whole. What ends then by itself didn't end with an engine, though the times that were noted
// before seem to be from long before the engine's process began.
func TestEndsAfterTheClockWasSet(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "sock")
	l := must[net.Listener](t)(net.Listen("unix", socket))
	defer l.Close()
	d := must[*Driver](t)(New(Options{Engine: "unix://" + socket, Data: t.TempDir(), Instance: "test"}))
	defer d.Close()
	now := time.Now()
	for what, c := range map[string]struct {
		engine, began time.Duration // how long ago, by the clock at that time
		code          int
		want          bool
	}{
		"started by this engine before the clock was set": {9 * time.Hour, 8 * time.Hour, 0, false},
		"started by this engine":                          {time.Minute, time.Second, 137, false},
		"started by one before, and dead":                 {time.Minute, time.Hour, 0, true},
	} {
		if err := os.Chtimes(socket, now, now.Add(-c.engine)); err != nil {
			t.Fatal(err)
		}
		s := &container.State{StartedAt: now.Add(-c.began).Format(time.RFC3339Nano), ExitCode: c.code}
		if got := d.states.beforeEngine(&container.InspectResponse{State: s, HostConfig: &container.HostConfig{}}, now); got != c.want {
			t.Errorf("%s: it ended with an engine before: %t", what, got)
		}
	}
}
