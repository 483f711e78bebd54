package fleet

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// failsToResume has each attempt of a worker's first resume fail.
const failsToResume = "DIAPAUSE_FAILPOINTS=worker.resume.opened=error;worker.resume.opened=error@2;worker.resume.opened=error@3"

// A resume that fails on the session's own host is tried on another one, for anyone who
// asked for it: a person who waits, or activity.
func TestFailedResumeIsTriedElsewhere(t *testing.T) {
	for name, wake := range map[string]func(*hosts){
		"asked for":   func(h *hosts) { h.must("ensure", "s") },
		"by activity": func(h *hosts) { h.must("touch", "s") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHosts(t)
			a := h.add("a").start(failsToResume)
			h.add("b").start()
			w := newWitness(t)
			h.run(a, "s", w)
			h.must("suspend", "s")
			wake(h)
			v := h.awaitMoved("s", a, "resume")
			w.goesOn()
			h.awaitTrees(v, 1)
			if at := w.drops(); len(at) > 0 {
				t.Errorf("the count went back: %v", at)
			}
			if out := h.must("history", "s"); !strings.Contains(out, "couldn't resume it") {
				t.Errorf("nothing says why it moved:\n%s", out)
			}
			h.audit()
		})
	}
}

// The worker of a session that may be taken over is killed, and its shims aren't: the
// session freezes by itself, goes on elsewhere once, and the killed worker removes what
// is left of it when it is started again.
func TestKilledWorkerIsTakenOver(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start()
	h.add("b").start()
	w := newWitness(t)
	h.run(a, "s", w, "--on-host-loss", "resume")
	h.must("checkpoint", "s")
	w.goesOn()
	a.end(syscall.SIGKILL)
	v := h.awaitMoved("s", a, "takeover")
	h.awaitTrees(v, 2) // the old one is frozen, and no one is there to remove it
	w.goesOn()
	h.wentBackOnce(w)
	a.start()
	h.awaitTrees(v, 1)
	w.goesOn()
	h.wentBackOnce(w)
	h.audit()
}

// The host that takes over fails to resume the session: the next one does.
func TestTakeoverThatFailsIsTriedElsewhere(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start()
	b := h.add("b").start(failsToResume)
	w := newWitness(t)
	h.run(a, "s", w, "--on-host-loss", "resume")
	h.must("checkpoint", "s")
	w.goesOn()
	h.up.Do("run", "--name", "filler", "--host", h.up.Host, "--idle", "never", "--", "sleep", "1000") // so that b is taken first
	a.end(syscall.SIGKILL)
	v := h.awaitMoved("s", a, "takeover")
	if v.Host == b.id {
		t.Errorf("it is on host %s, which fails to resume", b.id)
	}
	if out := h.must("history", "s"); !strings.Contains(out, "host "+string(b.id)+" couldn't resume it") {
		t.Errorf("host b was to be tried first:\n%s", out)
	}
	w.goesOn()
	h.wentBackOnce(w)
	a.start()
	h.awaitTrees(v, 1)
	h.audit()
}

// pause is a verb, and a moment in it at which its worker stops for longer than its lease.
type pause struct {
	verb   []string
	asleep bool   // the session is suspended before
	at     string // with the time that counts: the session was captured and resumed before
}

// pauses are all of them.
func pauses() map[string]pause {
	suspend, checkpoint, resume := []string{"suspend", "s"}, []string{"checkpoint", "s"}, []string{"ensure", "s"}
	fork := []string{"fork", "s", "copy"}
	return map[string]pause{
		"suspend, criu is at its end":       {suspend, false, "criu.capture.dumped=stop@2"},
		"suspend, all is durable":           {suspend, false, "worker.capture.durable=stop@2"},
		"suspend, before the kill":          {suspend, false, "worker.reap.heard=stop@2"},
		"resume, it is said to run":         {resume, true, "worker.resume.recorded=stop@2"},
		"resume, it runs and isn't heard":   {resume, true, "criu.restore.runs=stop@2"},
		"fork, its snapshot is taken":       {fork, false, "worker.checkpoint.thawed=stop"},
		"suspend, nothing is committed":     {suspend, false, "worker.capture.taken=stop@2"},
		"checkpoint, it goes on":            {checkpoint, false, "worker.checkpoint.thawed=stop"},
		"fork, nothing is committed":        {fork, false, "worker.capture.taken=stop@2"},
		"resume, before criu":               {resume, true, "criu.restore.filled=stop@2"},
		"resume, nothing has run":           {resume, true, "worker.resume.restored=stop@2"},
		"resume, it is about to be let run": {resume, true, "criu.restore.going=stop@2"},
	}
}

// A worker stops in the middle of an op for longer than its host's lease, and then goes
// on with it: what others made of the session meanwhile counts, it runs once, and nothing
// is lost but what came after the snapshot that it goes on from.
func TestPausedPastTheLease(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	for name, p := range pauses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHosts(t)
			a := h.add("a").start("DIAPAUSE_FAILPOINTS=" + p.at)
			h.add("b").start()
			w := newWitness(t)
			h.run(a, "s", w, "--on-host-loss", "resume")
			h.must("suspend", "s")
			h.must("ensure", "s")
			w.goesOn()
			if p.asleep {
				h.must("suspend", "s")
			}
			verb := h.begin(p.verb...)
			a.awaitStopped()
			<-verb // it is over when the host is known to be gone
			v := h.awaitElsewhere("s", a)
			w.goesOn()
			a.signal(syscall.SIGCONT)
			h.awaitTrees(v, 1)
			w.goesOn()
			if at := w.drops(); len(at) > 1 {
				t.Errorf("the count went back %d times: %v", len(at), at)
			}
			h.audit()
		})
	}
}

// The same for the session's shim, which is stopped while it restores it, and its worker
// while it waits for that: others have the session when both go on, and what the shim has
// restored executes nothing.
func TestShimPausedPastTheLease(t *testing.T) {
	moments := []string{"shim.restore.told"}
	if os.Getenv("DIAPAUSE_LONG") != "" {
		moments = append(moments, "shim.restore.restored", "shim.restore.noted") // one that runs while its shim is stopped, runs
	}
	for _, at := range moments {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			marks := t.TempDir()
			h := newHosts(t)
			a := h.add("a").start("DIAPAUSE_FAILPOINTS=" + at + "=stop;once=" + marks)
			h.add("b").start()
			w := newWitness(t)
			h.run(a, "s", w, "--on-host-loss", "resume")
			h.must("suspend", "s")
			verb := h.begin("ensure", "s")
			shim := awaitMark(t, filepath.Join(marks, at+"@1"))
			a.signal(syscall.SIGSTOP)
			<-verb
			v := h.awaitElsewhere("s", a)
			w.goesOn()
			if err := syscall.Kill(shim, syscall.SIGCONT); err != nil {
				t.Error(err)
			}
			a.signal(syscall.SIGCONT)
			h.awaitTrees(v, 1)
			w.goesOn()
			if at := w.drops(); len(at) > 1 {
				t.Errorf("the count went back %d times: %v", len(at), at)
			}
			h.audit()
		})
	}
}

// awaitMark waits until a process has stopped itself, having left its id.
func awaitMark(t *testing.T, file string) (pid int) {
	t.Helper()
	eventually(t, "a process stops", func() error {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if pid, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
			return err
		}
		return stopped(pid)
	})
	return pid
}

// A worker stops in the middle of a removal for longer than its host's lease: no one else
// has what is left to do, and when it goes on nothing stays.
func TestRemovalPausedPastTheLease(t *testing.T) {
	moments := []string{"worker.remove.stopped=stop"}
	if os.Getenv("DIAPAUSE_LONG") != "" {
		moments = append(moments, "worker.claimed=stop@4", "worker.remove.deleted=stop")
	}
	for _, at := range moments {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			h := newHosts(t)
			a := h.add("a").start("DIAPAUSE_FAILPOINTS=" + at)
			w := newWitness(t)
			h.run(a, "s", w, "--on-host-loss", "resume")
			h.must("checkpoint", "s")
			v := h.view("s")
			h.must("run", "--name", "other", "--host", string(a.id), "--idle", "never", "--", "sleep", "1000")
			verb := h.begin("rm", "--yes", "s")
			a.awaitStopped()
			h.awaitGone("other")
			a.signal(syscall.SIGCONT)
			<-verb
			h.awaitTrees(v, 0)
			eventually(t, "its images are gone", func() error {
				if left := filesBelow(t, h.store); len(left) > 0 { // other was never captured
					return fmt.Errorf("the store still has %v", left)
				}
				return nil
			})
			if r := h.up.Do("show", "s"); r.Code != 3 {
				t.Errorf("show: exit %d, %s%s", r.Code, r.Out, r.Err)
			}
			h.audit()
		})
	}
}

// awaitElsewhere asks for a session until it runs on another host.
func (h *hosts) awaitElsewhere(name string, than *host) (v schemas.View) {
	h.t.Helper()
	eventually(h.t, "session "+name+" runs on another host", func() error {
		h.up.Do("ensure", name)
		if v = h.view(name); v.Host == than.id || v.State != schemas.Running {
			return fmt.Errorf("it is %s on host %s", v.State, v.Host)
		}
		return nil
	})
	return v
}

// A suspended session whose host is gone can be removed: all that there is of it is in
// the store, and other hosts reach that.
func TestRemoveWithoutItsHost(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	h := newHosts(t)
	a := h.add("a").start()
	w := newWitness(t)
	h.run(a, "s", w)
	h.must("suspend", "s")
	a.end(syscall.SIGKILL)
	h.awaitGone("s")
	h.must("rm", "--yes", "s")
	if r := h.up.Do("show", "s"); r.Code != 3 {
		t.Errorf("show: exit %d, %s%s", r.Code, r.Out, r.Err)
	}
	if left := filesBelow(t, h.store); len(left) > 0 {
		t.Errorf("the store still has %v", left)
	}
	h.audit()
}

func filesBelow(t *testing.T, store string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(strings.TrimPrefix(store, "dir://"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, "/default/") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A session that ended by itself goes back to a snapshot of its.
func TestRollbackOfAnEndedSession(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	w := newWitness(t)
	h.must(append([]string{"run", "--name", "s", "--idle", "never", "--network", "host", "--",
		"bash", "-c", `"$@" & until [ -e /tmp/end ]; do sleep 0.05; done`, "-"}, w.command()...)...)
	w.goesOn()
	h.must("checkpoint", "s")
	w.goesOn()
	h.up.End("s", "/tmp/end")
	eventually(t, "it ends", func() error {
		if v := h.view("s"); v.State != schemas.Exited {
			return fmt.Errorf("it is %s", v.State)
		}
		return nil
	})
	out := h.must("snapshots", "s")
	id := strings.Fields(strings.Split(out, "\n")[1])[0]
	h.must("rollback", "s", id)
	if v := h.view("s"); v.State != schemas.Running || v.Boot != "rollback" {
		t.Errorf("it is %s, boot %s", v.State, v.Boot)
	}
	w.goesOn()
	h.wentBackOnce(w)
	h.audit()
}

// No one is suspended for room on a host while another has some, though what hosts say of
// their places is seconds old; and `down --kill` ends what runs on the host that stops, and
// nothing else of the fleet.
func TestRoomIsElsewhere(t *testing.T) {
	t.Parallel()
	h := newHosts(t, "--slots", "2")
	a := h.add("a").start()
	on := map[schemas.HostID][]string{}
	for _, name := range []string{"s1", "s2", "s3", "s4"} {
		if out := h.must("run", "--name", name, "--", "sleep", "1000"); strings.Contains(out, "make room") {
			t.Errorf("run of %s: %s", name, out)
		}
	}
	var all []schemas.View
	for _, name := range []string{"s1", "s2", "s3", "s4"} {
		v := h.view(name)
		if v.State != schemas.Running {
			t.Errorf("session %s is %s: %s", name, v.State, v.LastTransition.Reason)
		}
		all, on[v.Host] = append(all, v), append(on[v.Host], name)
	}
	if len(on) != 2 || len(on[a.id]) != 2 {
		t.Fatalf("they are on %v", on)
	}
	h.must("down", "--kill")
	for _, v := range all {
		want := 0
		if v.Host == a.id {
			want = 1
		}
		h.awaitTrees(v, want)
	}
	a.end(syscall.SIGTERM)
	h.startUp("--slots", "2")
	a.url = h.up.Secure
	a.start()
	for _, v := range all {
		if now := h.view(v.Name); (now.State == schemas.Running) != (v.Host == a.id) {
			t.Errorf("session %s on host %s is %s: %s", v.Name, v.Host, now.State, now.LastTransition.Reason)
		}
	}
	h.audit()
}
