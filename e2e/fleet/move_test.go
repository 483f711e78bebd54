package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// host shows a host as the fleet knows it.
func (h *hosts) host(w *host) (v schemas.HostView) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.must("host", "show", "--json", string(w.id))), &v); err != nil {
		h.t.Fatal(err)
	}
	return v
}

// refused has a verb refused for a reason.
func (h *hosts) refused(why schemas.Reason, args ...string) string {
	h.t.Helper()
	verb := 1
	if args[0] == "host" {
		verb = 2
	}
	r := h.up.Do(slices.Insert(slices.Clone(args), verb, "--json")...)
	if r.Code == 0 || r.Why() != why {
		h.t.Errorf("%v: exit %d, reason %q, want %q: %s%s", args, r.Code, r.Why(), why, r.Out, r.Err)
	}
	return r.Out + r.Err
}

// A session moves as one operation, with every number of its count, and says how long it stood
// still; where it can't go it doesn't go.
func TestMove(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a, b := h.add("a").start(), h.add("b").start()
	w := newWitness(t)
	h.run(a, "s", w)
	h.refused(schemas.ReasonSameHost, "move", "s", "--host", string(a.id))
	h.refused(schemas.ReasonNoHost, "move", "s", "--host", "nowhere")
	h.must("host", "cordon", string(b.id))
	h.refused(schemas.ReasonCordoned, "move", "s", "--host", string(b.id))
	h.must("host", "uncordon", string(b.id))
	var v schemas.View
	if err := json.Unmarshal([]byte(h.must("move", "--json", "s", "--host", string(b.id))), &v); err != nil {
		t.Fatal(err)
	}
	if m := v.Moved; v.Host != b.id || m == nil || m.From != a.id || m.To != b.id || m.FrozenMS <= 0 {
		t.Errorf("it is on host %s, moved: %+v", v.Host, v.Moved)
	}
	w.goesOn()
	h.awaitTrees(v, 1)
	h.must("suspend", "s")
	if out := h.must("move", "s", "--host", string(a.id)); !strings.Contains(out, "was suspended before") {
		t.Errorf("a move of a suspended session says %q", out)
	}
	h.awaitState("s", schemas.Running, a)
	w.goesOn()
	if at := w.drops(); len(at) > 0 {
		t.Errorf("the count went back: %v", at)
	}
	h.audit()
}

// A session that can't be resumed where it goes runs on where it was.
func TestMoveThatFails(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a, b := h.add("a").start(), h.add("b").start(failsToResume)
	w := newWitness(t)
	h.run(a, "s", w)
	h.refused(schemas.ReasonFellBack, "move", "s", "--host", string(b.id))
	v := h.awaitState("s", schemas.Running, a)
	w.goesOn()
	h.awaitTrees(v, 1)
	if at := w.drops(); len(at) > 0 || v.Failure == nil || v.Failure.Op != schemas.OpMove {
		t.Errorf("the count went back: %v; failure %+v", at, v.Failure)
	}
	h.audit()
}

// The target is lost while it resumes the session: the session goes on where it was.
func TestMoveToAHostThatIsLost(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a, b := h.add("a").start(), h.add("b").start("DIAPAUSE_FAILPOINTS=worker.resume.opened=kill")
	w := newWitness(t)
	h.run(a, "s", w)
	h.refused(schemas.ReasonFellBack, "move", "s", "--host", string(b.id))
	v := h.awaitState("s", schemas.Running, a)
	w.goesOn()
	h.awaitTrees(v, 1)
	if at := w.drops(); len(at) > 0 {
		t.Errorf("the count went back: %v", at)
	}
	h.audit()
}

// The host that the session leaves is lost when its image is durable: the session goes on where it
// was to go, or on another host, and nothing of it runs where it was.
func TestMoveFromAHostThatIsLost(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	h := newHosts(t)
	a, b := h.add("a").start("DIAPAUSE_FAILPOINTS=worker.suspend.recorded=kill"), h.add("b").start()
	w := newWitness(t)
	h.run(a, "s", w)
	h.must("move", "s", "--host", string(b.id))
	v := h.awaitState("s", schemas.Running, b)
	w.goesOn()
	a.start()
	h.awaitTrees(v, 1)
	w.goesOn()
	if at := w.drops(); len(at) > 0 {
		t.Errorf("the count went back: %v", at)
	}
	h.audit()
}

// A host is taken out of service: what is in use is waited for until that is forced, what sleeps
// wakes elsewhere, and the host is forgotten when nothing is left there.
func TestDrain(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start()
	b := h.add("b")
	b.args = []string{"--label", "zone=b"}
	b.start()
	w, sleeper := newWitness(t), newWitness(t)
	h.run(a, "s", w)
	h.run(a, "asleep", sleeper)
	h.must("suspend", "asleep")
	h.must("host", "drain", "--wait", "0s", string(a.id))
	eventually(t, "the drain waits for use", func() error {
		v := h.host(a)
		if v.Order == nil || !v.Order.Draining || v.Empty || len(v.Left) != 1 || v.Left[0].Step != "wait" || !strings.Contains(v.Left[0].Why, "in use") {
			return fmt.Errorf("%+v, order %+v", v.Left, v.Order)
		}
		return nil
	})
	h.refused(schemas.ReasonNoHost, "run", "--name", "new", "--host", string(a.id), "--", "sleep", "100")
	h.must("touch", "asleep")
	h.awaitMoved("asleep", a, "resume")
	h.refused(schemas.ReasonInUse, "host", "rm", string(a.id))
	out := h.must("host", "drain", "--force", string(a.id))
	if !strings.Contains(out, "is drained") || !h.host(a).Empty {
		t.Errorf("the drain says\n%s", out)
	}
	h.awaitMoved("s", a, "resume")
	w.goesOn()
	sleeper.goesOn()
	if at := append(w.drops(), sleeper.drops()...); len(at) > 0 {
		t.Errorf("a count went back: %v", at)
	}
	out = h.refused(schemas.ReasonNoHost, "run", "--name", "new", "--host-label", "zone=c", "--", "sleep", "100")
	for _, want := range []string{string(a.id) + ": it is cordoned", string(b.id) + ": it lacks the label zone=c"} {
		if !strings.Contains(out, want) {
			t.Errorf("what no host can take says %q, not %q", out, want)
		}
	}
	a.end(syscall.SIGTERM)
	eventually(t, "the host is forgotten", func() error {
		if r := h.up.Do("host", "rm", string(a.id)); r.Code != 0 {
			return fmt.Errorf("%s", r.Err)
		}
		return nil
	})
	h.refused(schemas.ReasonNoHost, "host", "cordon", string(a.id))
	h.audit()
}

// Hosts with 20 ms to NATS, of whose packets one in a hundred is lost, do all that others do, and keep
// their leases.
func TestBadNetwork(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	h := newHosts(t)
	on := []*host{h.add("a"), h.add("b")}
	for _, w := range on {
		w.wireOf(&cable{delay: 20 * time.Millisecond, loses: 100})
		w.start()
	}
	w := newWitness(t)
	h.run(on[0], "s", w, "--on-host-loss", "resume")
	for i := range 2 {
		h.must("suspend", "s")
		h.must("ensure", "s")
		w.goesOn()
		h.must("move", "s", "--host", string(on[1-i].id))
		w.goesOn()
	}
	v := h.awaitState("s", schemas.Running, on[0])
	h.awaitTrees(v, 1)
	if at := w.drops(); len(at) > 0 {
		t.Errorf("a count went back: %v", at)
	}
	if out := h.must("exec", "s", "--", "sh", "-c", "head -c 300000 /dev/zero | wc -c"); strings.TrimSpace(out) != "300000" {
		t.Errorf("a command says %q", out)
	}
	if out := h.must("exec", "s", "--", "head", "-c", "300000", "/dev/zero"); len(out) != 300000 {
		t.Errorf("a command's output has %d bytes", len(out))
	}
	if out := h.must("history", "s"); strings.Contains(out, "takeover") || strings.Contains(out, "taken_over") {
		t.Errorf("it was taken over:\n%s", out)
	}
	h.audit()
}

// What a session asks of its hosts holds at each resume.
func TestPlacement(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a, b := h.add("a"), h.add("b")
	a.args, b.args = []string{"--label", "disk=ssd"}, []string{"--label", "disk=ssd"}
	a.start()
	b.start()
	w, other := newWitness(t), newWitness(t)
	h.run(a, "s", w, "--host-label", "disk=ssd")
	h.must(append([]string{"run", "--name", "other", "--network", "host", "--host-label", "disk=ssd", "--apart-from", "s", "--spread", "--"}, other.command()...)...)
	if v := h.view("other"); v.Host != b.id {
		t.Errorf("it is on host %s; only host %s has the label and no session s", v.Host, b.id)
	}
	h.refused(schemas.ReasonNoHost, "move", "s")
	h.must("suspend", "other")
	h.must("suspend", "s")
	h.must("move", "s", "--host", string(b.id))
	h.must("touch", "other")
	h.awaitState("other", schemas.Running, a)
	other.goesOn()
	w.goesOn()
	if at := append(w.drops(), other.drops()...); len(at) > 0 {
		t.Errorf("a count went back: %v", at)
	}
	h.audit()
}
