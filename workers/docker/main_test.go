package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

// open makes a driver on a data directory.
func open(t *testing.T, e *dockertest.Engine, data string) *Driver {
	t.Helper()
	return openArmed(t, e, data, nil)
}

func openArmed(t *testing.T, e *dockertest.Engine, data string, points *failpoint.Set) *Driver {
	t.Helper()
	d, err := New(Options{Engine: e.URL, Data: data, Instance: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Failpoints: points})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// counting counts in its layer: its memory doesn't outlive a suspend. A file ends it.
const counting = `i=$(cat /n 2>/dev/null || echo 0); while ! [ -e /end ]; do i=$((i+1)); echo $i >/n.new; mv /n.new /n; sleep 0.01; done; rm /end; exit 7`

func TestConformance(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	image := e.Busybox(t)
	drivertest.Run(t, func(t *testing.T) drivertest.Host {
		data := t.TempDir()
		spec := func(command ...string) schemas.Spec {
			return dockerspec.With(schemas.Spec{Command: command, Network: "none"}, dockerspec.Options{Image: image})
		}
		t.Cleanup(func() { clean(t, e) })
		t.Cleanup(func() { release(t, open(t, e, data)) })
		return drivertest.Host{
			Open:     func(t *testing.T) driver.Driver { return open(t, e, data) },
			Counting: spec("sh", "-c", counting),
			Missing:  spec("/no/such/command"),
			Count:    func(t *testing.T, d driver.Driver, uid schemas.UID) int { return count(t, d.(*Driver), uid) },
			End: func(t *testing.T, d driver.Driver, uid schemas.UID) {
				inContainer(t, d.(*Driver), uid, "touch", "/end")
			},
		}
	})
}

// release gives up the containers that are kept of sessions that have ended.
func release(t *testing.T, d *Driver) {
	t.Helper()
	for _, n := range must[[]note](t)(d.notes.all()) {
		if err := d.Release(afterwards(t), driver.Fence{UID: n.UID, Name: n.Name, Epoch: n.Epoch}); err != nil {
			t.Error(err)
		}
	}
}

// clean makes sure that a test has left nothing on an engine.
func clean(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	left, err := e.Leftovers(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left {
		t.Errorf("%s is left", l)
	}
}

// inContainer runs a command in a session's container and gives what it printed.
func inContainer(t *testing.T, d *Driver, uid schemas.UID, command ...string) string {
	t.Helper()
	n, err := d.notes.read(uid)
	if err != nil {
		t.Fatal(err)
	}
	return execIn(t, d.engine.Client, n.Container, command...)
}

func execIn(t *testing.T, c *client.Client, container string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), drivertest.Limit)
	defer cancel()
	made, err := c.ExecCreate(ctx, container, client.ExecCreateOptions{Cmd: command, AttachStdout: true, AttachStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, got.Reader); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// count waits for a step of a counting session.
func count(t *testing.T, d *Driver, uid schemas.UID) int {
	t.Helper()
	first := -1
	for end := time.Now().Add(drivertest.Limit); time.Now().Before(end); {
		out := inContainer(t, d, uid, "cat", "/n")
		n, err := strconv.Atoi(out)
		if err != nil { // it hasn't started
			continue
		}
		if first >= 0 && n > first {
			return n
		}
		if first < 0 {
			first = n
		}
	}
	t.Fatal("the session doesn't count")
	return 0
}

// must fails a test at an error.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// afterwards gives a context for what comes after a test.
func afterwards(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), drivertest.Limit)
	t.Cleanup(cancel)
	return ctx
}

// textOf gives the texts of warnings, a line each.
func textOf(all []schemas.Warning) string {
	var out strings.Builder
	for _, w := range all {
		fmt.Fprintln(&out, w.Text)
	}
	return out.String()
}
