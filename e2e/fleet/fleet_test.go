package fleet

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// A suspended session whose host is gone for good comes back on another one.
func TestResumeElsewhere(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a, b := h.add("a").start(), h.add("b").start()
	w := newWitness(t)
	h.run(a, "s", w)
	h.must("suspend", "s")
	a.end(syscall.SIGKILL)
	h.awaitGone("s")
	h.must("ensure", "s")
	v := h.view("s")
	if v.Host == a.id || v.State != schemas.Running || v.Boot != "resume" {
		t.Errorf("it is %s on %s, boot %s; host %s is gone", v.State, v.Host, v.Boot, a.id)
	}
	w.goesOn()
	if at := w.drops(); len(at) > 0 {
		t.Errorf("the count went back: %v", at)
	}
	_ = b
	h.audit()
}

// awaitGone waits until the fleet knows that the session's host is gone.
func (h *hosts) awaitGone(name string) {
	h.t.Helper()
	eventually(h.t, "the host of session "+name+" is known to be gone", func() error {
		if h.view(name).HostGone == nil {
			return fmt.Errorf("it isn't")
		}
		return nil
	})
}

// A worker that is killed costs a session that waits for it nothing: it runs on past
// the lease, is said to be stranded, and is found again.
func TestKilledWorkerIsWaitedFor(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a, _ := h.add("a").start(), h.add("b").start()
	w := newWitness(t)
	h.run(a, "s", w)
	h.must("checkpoint", "s")
	a.end(syscall.SIGKILL)
	h.awaitGone("s")
	w.goesOn()
	if r := h.up.Do("ensure", "--json", "s"); r.Code != 4 || r.Why() != schemas.ReasonHostGone {
		t.Errorf("ensure: exit %d, %q", r.Code, r.Out)
	}
	if out := h.must("explain", "s"); !strings.Contains(out, "is gone since") {
		t.Errorf("explain says %q", out)
	}
	a.start()
	eventually(t, "its host is known to be back", func() error {
		if r := h.up.Do("ensure", "s"); r.Code != 0 {
			return fmt.Errorf("ensure: %s", r.Err)
		}
		return nil
	})
	w.goesOn()
	v := h.awaitState("s", schemas.Running, a)
	h.awaitTrees(v, 1)
	if at := w.drops(); len(at) > 0 || v.Generation != 1 {
		t.Errorf("generation %d, the count went back: %v", v.Generation, at)
	}
	h.audit()
}

// What a host that is gone for good was asked to remove, another host removes once the host itself is.
// If it is back after all, it ends what it still runs.
func TestRemovedWithItsHost(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a, _ := h.add("a").start(), h.add("b").start()
	h.run(a, "s", newWitness(t))
	h.must("checkpoint", "s")
	v := h.view("s")
	a.end(syscall.SIGKILL)
	h.awaitGone("s")
	h.refused(schemas.ReasonInUse, "host", "rm", string(a.id))
	removed := h.begin("rm", "--yes", "s")
	eventually(t, "another host removes it", func() error {
		if r := h.up.Do("host", "rm", string(a.id)); r.Code != 0 {
			return fmt.Errorf("host rm: %s", r.Err)
		}
		return nil
	})
	if r := <-removed; r.code != 0 {
		t.Errorf("rm: exit %d, %s", r.code, r.err)
	}
	handedOver := regexp.MustCompile("host " + string(a.id) + ` is gone for good: \S+ removes what it stored`) // b, or the host of the others
	if out := h.must("history", "s"); !handedOver.MatchString(out) {
		t.Errorf("history says\n%s", out)
	}
	h.awaitTrees(v, 1)
	a.start()
	h.awaitTrees(v, 0)
	h.audit()
}

// A worker that is stopped for longer than its lease: its session freezes by itself,
// another host goes on from the last snapshot, and the old copy is removed having
// executed nothing since.
func TestStoppedWorkerIsTakenOver(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a, b := h.add("a").start(), h.add("b").start()
	w := newWitness(t)
	h.run(a, "s", w, "--on-host-loss", "resume")
	h.must("checkpoint", "s")
	w.goesOn()
	a.signal(syscall.SIGSTOP)
	v := h.awaitMoved("s", a, "takeover")
	h.awaitTrees(v, 2) // the old one is frozen, not gone: no one could remove it
	w.goesOn()
	a.signal(syscall.SIGCONT)
	h.awaitTrees(v, 1)
	w.goesOn()
	h.wentBackOnce(w)
	_ = b
	h.audit()
}

// awaitMoved waits until another host than w runs a session, and that it came there by boot.
func (h *hosts) awaitMoved(name string, w *host, boot schemas.Boot) schemas.View {
	h.t.Helper()
	var v schemas.View
	eventually(h.t, "session "+name+" is on another host", func() error {
		v = h.view(name)
		if v.State != schemas.Running || v.Host == w.id || v.Boot != boot {
			return fmt.Errorf("it is %s on %s, boot %s", v.State, v.Host, v.Boot)
		}
		return nil
	})
	return v
}

func (h *hosts) wentBackOnce(w *witness) {
	h.t.Helper()
	if at := w.drops(); len(at) != 1 {
		h.t.Errorf("the count went back %d times, want once, to the snapshot: %v", len(at), at)
	}
}

// A host that is cut off from NATS: the same.
func TestHostCutOffIsTakenOver(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a := h.add("a")
	wire := a.wire()
	a.start()
	h.add("b").start()
	w, waits := newWitness(t), newWitness(t)
	h.run(a, "s", w, "--on-host-loss", "resume")
	h.run(a, "waits", waits)
	h.must("checkpoint", "s")
	w.goesOn()
	wire.set(true)
	v := h.awaitMoved("s", a, "takeover")
	waits.goesOn() // it was made to wait, so nothing froze it
	w.goesOn()
	wire.set(false)
	h.awaitTrees(v, 1)
	w.goesOn()
	h.wentBackOnce(w)
	h.awaitState("waits", schemas.Running, a)
	if at := waits.drops(); len(at) > 0 {
		t.Errorf("what was made to wait went back: %v", at)
	}
	h.audit()
}

// A session that no other host can have, since it was never captured, stands still while
// its host is cut off, and then goes on where it was.
func TestHostComesBackInTime(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a := h.add("a")
	wire := a.wire()
	a.start()
	w := newWitness(t)
	h.run(a, "s", w, "--on-host-loss", "resume")
	wire.set(true)
	h.awaitGone("s") // the lease is over, so it has frozen before
	before := w.numbers()
	wire.set(false)
	w.goesOn()
	after := w.numbers()
	if len(after) <= len(before) {
		t.Errorf("it heard %d numbers before, %d after", len(before), len(after))
	}
	if out := h.must("history", "s"); !strings.Contains(out, "kept") {
		t.Errorf("nothing says that it stood still:\n%s", out)
	}
	v := h.awaitState("s", schemas.Running, a)
	h.awaitTrees(v, 1)
	if at := w.drops(); len(at) > 0 || v.Generation != 1 {
		t.Errorf("generation %d, the count went back: %v", v.Generation, at)
	}
	h.audit()
}

// A host that dies when an image is durable and before the record says so: the image is
// found, under any policy of the session, and goes on elsewhere.
func TestDurableImageIsAdopted(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start("DIAPAUSE_FAILPOINTS=worker.capture.durable=kill")
	h.add("b").start()
	w := newWitness(t)
	h.run(a, "s", w)
	if r := h.up.Do("suspend", "s"); r.Code != 0 {
		t.Fatalf("suspend, whose worker was killed: exit %d, %s", r.Code, r.Err)
	}
	out := h.must("history", "s")
	if !strings.Contains(out, "adopted") {
		t.Errorf("the image wasn't adopted:\n%s", out)
	}
	h.must("ensure", "s")
	v := h.view("s")
	if v.Host == a.id || v.State != schemas.Running {
		t.Errorf("it is %s on %s", v.State, v.Host)
	}
	w.goesOn()
	a.start()
	h.awaitTrees(v, 1)
	if at := w.drops(); len(at) > 0 {
		t.Errorf("the count went back: %v", at)
	}
	h.audit()
}
