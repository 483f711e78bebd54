package docker

import (
	"fmt"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// What a container does is seen: the CPU that it uses, its processes, the commands that
// were started in it, and who is connected to it.
func TestObserve(t *testing.T) {
	x := newTester(t)
	x.network("seen")
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	x.start("a", dockerspec.With(schemas.Spec{
		Command: []string{"sh", "-c", "sleep 1000000 & httpd -f -p 80"},
	}, dockerspec.Options{Networks: []string{"seen"}, Publish: []string{fmt.Sprintf("127.0.0.1:%d:80", port)}}))
	see := func() driver.Observation {
		t.Helper()
		return must[driver.Observation](t)(x.d.Observe(t.Context(), "a"))
	}
	until := func(what string, seen func(o driver.Observation) bool) {
		t.Helper()
		var o driver.Observation
		for end := time.Now().Add(drivertest.Limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if o = see(); seen(o) {
				return
			}
		}
		t.Errorf("%s isn't seen: %+v", what, o)
	}
	until("that it rests", func(o driver.Observation) bool {
		return o.Status == "" && o.Processes >= 2 && o.RSS > 0 && o.Inbound == 0 && o.Execs == 0
	})
	want := &schemas.Container{Name: "diapause-default-a", Image: "busybox:test", Ports: []string{fmt.Sprintf("127.0.0.1:%d->80/tcp", port)}}
	if got := see().Container; !reflect.DeepEqual(got, want) {
		t.Errorf("it is seen as container %+v, want %+v", got, want)
	}
	before := see().CPU
	done := make(chan struct{})
	go func() {
		defer close(done)
		inContainer(t, x.d, "a", "sh", "-c", "while ! [ -e /stop ]; do :; done")
	}()
	until("a command and what it takes", func(o driver.Observation) bool { return o.Execs == 1 && o.CPU > before+20*time.Millisecond })
	x.sh("a", "touch /stop")
	<-done
	until("that it is over", func(o driver.Observation) bool { return o.Execs == 0 })
	var conn net.Conn
	for end := time.Now().Add(drivertest.Limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		if conn, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			break
		}
	}
	defer conn.Close()
	until("a connection", func(o driver.Observation) bool { return o.Inbound == 1 })
}

// seenAs compares what a session is said to be where it isn't simply running.
func (x *tester) seenAs(uid schemas.UID, want string) {
	x.t.Helper()
	if got := must[driver.Observation](x.t)(x.d.Observe(x.t.Context(), uid)); got.Status != want {
		x.t.Errorf("it is seen as %q, want %q", got.Status, want)
	}
}

// A pause of ours is none to tell of; health is told where it is bad.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	sick := &container.State{Running: true, Status: container.StateRunning, Health: &container.Health{Status: container.Unhealthy, FailingStreak: 3}}
	well := &container.State{Running: true, Status: container.StateRunning, Health: &container.Health{Status: container.Healthy}}
	paused := &container.State{Running: true, Paused: true, Status: container.StatePaused}
	again := &container.State{Running: true, Restarting: true, Status: container.StateRestarting}
	for _, c := range []struct {
		n    note
		s    *container.State
		want string
	}{
		{note{Phase: here}, sick, "unhealthy"}, {note{Phase: here}, well, ""}, {note{Phase: here}, paused, "paused"},
		{note{Phase: frozen}, paused, ""}, {note{Phase: frozen, Paused: true}, paused, "paused"}, {note{Phase: here}, again, "restarting"},
	} {
		if got := statusOf(c.n, &container.InspectResponse{State: c.s, Config: &container.Config{}}); got != c.want {
			t.Errorf("%s, noted %s: %q, want %q", c.s.Status, c.n.Phase, got, c.want)
		}
	}
}
