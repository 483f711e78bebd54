package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/e2e/jump"
	"github.com/diapause/diapause/schemas"
)

// The clocks of all machines jump by an hour, forth and back, while a session is in use,
// sleeps and is idle: it isn't suspended earlier for that, nor kept awake, it comes back,
// and no host counts as gone.
func TestClocksJump(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start()
	w := newWitness(t)
	h.run(a, "s", w, "--idle", "4s", "--on-host-loss", "resume")

	held := time.Now()
	h.must("hold", "s", "--for", "6s", "--reason", "the clock is going to jump")
	h.clocks(time.Hour, h.up.Data, a.data)
	v := h.awaitAsleep("s")
	if took := time.Since(held); took < 6*time.Second {
		t.Errorf("it was held for 6 s, and is suspended after %s: %s", took, v.LastTransition.Reason)
	}
	ahead(t, v, time.Hour)

	h.clocks(0, h.up.Data, a.data)
	h.must("ensure", "s")
	w.goesOn()
	used := time.Now()
	h.must("touch", "s")
	h.clocks(-time.Hour, h.up.Data, a.data)
	v = h.awaitAsleep("s")
	if took := time.Since(used); took < 4*time.Second {
		t.Errorf("its grace is 4 s, and it is suspended after %s: %s", took, v.LastTransition.Reason)
	}
	ahead(t, v, -time.Hour)
	h.must("touch", "s")
	v = h.awaitState("s", schemas.Running, a)
	w.goesOn()
	if at := w.drops(); len(at) > 0 || v.HostGone != nil || v.Boot != "resume" {
		t.Errorf("boot %s, host gone: %v, the count went back: %v", v.Boot, v.HostGone, at)
	}
	h.audit()
}

// The clocks of hosts and scheduler are hours apart: no one takes a host for gone that is
// there, what a publisher's clock says counts for nothing, and a host that is gone is taken
// over from as soon as ever.
func TestClocksApart(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start()
	b := h.add("b").start()
	h.clocks(-time.Hour, h.up.Data)
	h.clocks(time.Hour, a.data)
	h.clocks(3*time.Hour, b.data)
	w := newWitness(t)
	h.run(a, "s", w, "--idle", "4s", "--on-host-loss", "resume")
	h.clocks(time.Hour, a.data) // its shim too

	used := time.Now()
	h.publish(used.Add(-5 * time.Hour))
	v := h.awaitAsleep("s")
	if took := time.Since(used); took < 4*time.Second {
		t.Errorf("its grace is 4 s, and it is suspended after %s: %s", took, v.LastTransition.Reason)
	}
	h.publish(time.Now().Add(5 * time.Hour))
	h.awaitState("s", schemas.Running, a)
	w.goesOn()
	h.awaitAsleep("s")
	h.must("hold", "s", "--for", "1h", "--reason", "it is to be taken over") // which wakes nothing
	h.must("ensure", "s")
	w.goesOn()
	if v := h.view("s"); v.HostGone != nil || len(w.drops()) > 0 {
		t.Errorf("host gone: %v, the count went back: %v", v.HostGone, w.drops())
	}
	h.clocks(time.Hour, a.data)
	a.end(syscall.SIGKILL)
	h.awaitMoved("s", a, "takeover")
	w.goesOn()
	h.wentBackOnce(w)
	a.start()
	h.awaitTrees(h.view("s"), 1)
	h.audit()
}

// awaitAsleep waits until a session is suspended, and past being undone.
func (h *hosts) awaitAsleep(name string) schemas.View {
	h.t.Helper()
	var v schemas.View
	eventually(h.t, "session "+name+" sleeps", func() error {
		if v = h.view(name); v.State != schemas.Suspended || v.Op != "" {
			return fmt.Errorf("it is %s, op %q: %s", v.State, v.Op, v.LastTransition.Reason)
		}
		return nil
	})
	return v
}

// ahead checks that a clock has jumped: that of anyone who made a session's last transition.
func ahead(t *testing.T, v schemas.View, want time.Duration) {
	t.Helper()
	if got := time.Until(v.LastTransition.At).Round(10 * time.Minute); got != want {
		t.Errorf("%s was made by a clock that is ahead by %s, want %s", v.LastTransition.Type, got, want)
	}
}

// publish says as a CloudEvent, without credentials, that there was input at a time.
func (h *hosts) publish(at time.Time) {
	h.t.Helper()
	nc, err := nats.Connect(h.up.URL)
	if err != nil {
		h.t.Fatal(err)
	}
	defer nc.Close()
	msg := nats.NewMsg(schemas.SubjectActivity + ".default.s.input")
	for k, v := range map[string]string{"specversion": "1.0", "type": "input", "source": "a clock that is off", "id": "1", "time": at.UTC().Format(time.RFC3339)} {
		msg.Header.Set("ce-"+k, v)
	}
	if err := nc.PublishMsg(msg); err != nil {
		h.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil { // who has no credentials hears no answer
		h.t.Fatal(err)
	}
}

// clocks sets those of all processes of the program whose data are there: daemons,
// workers, and the shims of their sessions.
func (h *hosts) clocks(ahead time.Duration, data ...string) {
	h.t.Helper()
	n := 0
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, dir := range all {
		exe, err := os.Readlink(dir + "/exe")
		if err != nil || exe != built.program || !mentions(dir, data) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			h.t.Fatal(err)
		}
		c, err := jump.Of(exe, pid)
		if err == nil {
			err = c.Set(ahead)
			c.Close()
		}
		if err != nil {
			h.t.Fatal(err)
		}
		n++
	}
	if n < len(data) {
		h.t.Fatalf("%d clocks are set, of %d hosts", n, len(data))
	}
}

// mentions reports whether a process was started with one of the directories.
func mentions(proc string, data []string) bool {
	said, err := os.ReadFile(proc + "/cmdline")
	if err != nil {
		return false
	}
	for _, d := range data {
		if strings.Contains(string(said), d) {
			return true
		}
	}
	return false
}
