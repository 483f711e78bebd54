package docker

import (
	"context"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/docker/dockertest"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// What became of containers while nobody looked: those that ended with their engine are lost,
// and their sessions say so; those that ended by themselves, or that somebody stopped, have
// ended; those that the engine began again run.
func TestEngineWentWhileNobodyLooked(t *testing.T) {
	x := testerOn(t, dockertest.New(t))
	const script = "trap 'exit 143' TERM; while ! [ -e /end ]; do sleep 0.01; done; exit 7" // what a signal ends has this status
	with := func(o driver.Docker) driver.Spec {
		return driver.Spec{Command: []string{"sh", "-c", script}, Docker: &o}
	}
	plain, ends, unless := with(driver.Docker{}), with(driver.Docker{}), with(driver.Docker{Restart: "unless-stopped"})
	for name, spec := range map[string]driver.Spec{"stopped": plain, "ended": ends, "begun": unless, "told": unless} {
		x.start(name, spec)
	}
	id := func(name string) string {
		return must[note](t)(x.d.notes.read(drivertest.Fence(name, 1).UID)).Container
	}
	x.sh("ended", "touch /end")
	if err := x.d.stopped(t.Context(), id("ended")); err != nil {
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
	}{"stopped": {driver.Exited, true, 143}, "ended": {driver.Exited, false, 7}, "begun": {driver.Running, false, 0}, "told": {driver.Exited, false, 0}} {
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
