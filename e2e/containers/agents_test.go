package containers

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

// mixed makes a file of 6 MiB that nothing makes smaller and 8 MB of text, in turns.
const mixed = `i=1000000; while [ $i -lt 1012000 ]; do dd if=/dev/urandom bs=512k count=1 2>/dev/null; seq $((i*1000)) $((i*1000+60000)); i=$((i+1000)); done >/data/mixed`

// snapshots lists those of a session.
func (h *host) snapshots(name string) (all []schemas.SnapshotView) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.must("snapshots", "--json", name)), &all); err != nil {
		h.t.Fatal(err)
	}
	return all
}

// snapshotOf waits for the snapshot of a trigger.
func (h *host) snapshotOf(name, trigger string) schemas.SnapshotView {
	h.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, s := range h.snapshots(name) {
			if s.Trigger == trigger && s.By != "" { // it is in the log, too
				return s
			}
		}
	}
	h.t.Fatalf("there is no snapshot for %s: %+v", trigger, h.snapshots(name))
	return schemas.SnapshotView{}
}

// triggered waits until a trigger came to something, good or bad.
func (h *host) triggered(name, transition string) {
	h.t.Helper()
	for end := time.Now().Add(limit); !strings.Contains(h.must("history", name), transition); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("there is no %s:\n%s", transition, h.must("history", name))
		}
	}
}

// A container of an agent has checkpoints of what the agent does and of what is asked by
// hand, which are listed, gone back to and deleted, up to a number. One that fails is
// nothing to the agent.
func TestAgentsSnapshots(t *testing.T) {
	e := dockertest.Shared(t)
	e.Busybox(t)
	h := newHost(t, e)
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	h.Env = append(os.Environ(), failpoint.Variable+"="+string(failpoint.DockerAdded)+"=error")
	err := h.Up("--docker", e.URL)
	h.Env = nil
	if err != nil {
		t.Fatal(err)
	}
	h.must("run", "--name", "agent", "--image", "busybox:test", "--container-name", "agent", "--idle", "never", "--network", "none", "-v", "agentdata:/data", "--", "sleep", "1000000")
	h.until("agent", "echo 0 >/state; echo 0 >/data/state; "+mixed)
	h.must("policy", "set", "session:agent", "checkpoints=run_boundaries,every_action,manual", "keep=count:3")

	h.must("trigger", "agent", "run_start", "--run-id", "r-0") // the first fails
	h.triggered("agent", "checkpoint_failed")
	if status, _ := h.state("agent"); status != "running" || len(h.snapshots("agent")) != 0 {
		t.Errorf("after a snapshot that failed the container is %s, with %+v", status, h.snapshots("agent"))
	}
	if out := h.must("exec", "agent", "--", "cat", "/state"); out != "0\n" {
		t.Errorf("exec gives %q", out)
	}

	h.must("trigger", "agent", "run_start", "--run-id", "r-1", "--reason", "mend the tests")
	began := h.snapshotOf("agent", "run_start")
	if began.Description != "mend the tests" || began.RunID != "r-1" || !strings.HasPrefix(began.By, "agent:") || !strings.Contains(began.Reason, "run_start, run r-1") ||
		began.LogicalBytes == 0 || began.StoredBytes == 0 || time.Since(began.At) > limit {
		t.Errorf("the snapshot says %+v", began)
	}
	if text := began.StoredBytes - 12<<19; began.NewBytes < 14<<20 || text > 3<<20 { // 8 MB of text, and busybox
		t.Errorf("%d bytes, half of them text, take %d in the store: they aren't made small", began.NewBytes, began.StoredBytes)
	}
	h.until("agent", "echo 1 >/state; echo 1 >/data/state")
	h.must("trigger", "agent", "after", "--action", "edit", "--run-id", "r-1")
	if s := h.snapshotOf("agent", "after"); s.Description != "edit" || s.RunID != "r-1" {
		t.Errorf("the snapshot says %+v", s)
	}
	h.must("trigger", "agent", "run_end", "--run-id", "r-1")
	h.snapshotOf("agent", "run_end")
	h.must("checkpoint", "agent", "--description", "by hand", "--run-id", "r-2")
	if s := h.snapshotOf("agent", "manual"); s.Description != "by hand" || s.RunID != "r-2" || !s.Head {
		t.Errorf("the snapshot says %+v", s)
	}

	h.must("rollback", "agent", began.ID)
	if out := h.until("agent", "cat /state /data/state"); out != "0\n0" {
		t.Errorf("after going back it has %q", out)
	}
	h.atOnce("agent")
	h.must("checkpoint", "agent")
	for _, s := range h.snapshots("agent") {
		if want := map[bool]int{true: 1}[s.ID == began.ID]; s.Restores < want {
			t.Errorf("the snapshot at %s came back %d times", s.Trigger, s.Restores)
		}
		if s.Trigger == "run_end" {
			h.must("snapshots", "rm", "agent", s.ID)
		}
	}
	h.must("store", "prune")
	left := h.snapshots("agent")
	if len(left) != 3 || !left[2].Head {
		t.Errorf("of a session that is to keep 3 there is %+v", left)
	}
	h.must("suspend", "agent")
	h.must("ensure", "agent")
	if out := h.until("agent", "cat /state /data/state"); out != "0\n0" {
		t.Errorf("at last it has %q", out)
	}
	h.must("audit", "--verify")
}

// atOnce asks for several things to be done to a container at one time: they are done one
// after the other, or refused.
func (h *host) atOnce(name string) {
	h.t.Helper()
	var wg sync.WaitGroup
	for _, args := range [][]string{{"checkpoint", name}, {"checkpoint", name}, {"suspend", name}, {"ensure", name}, {"checkpoint", name}} {
		wg.Go(func() {
			if r := h.Do(args...); r.Code != 0 && r.Code != 4 {
				h.t.Errorf("%q beside others: %+v", args, r)
			}
		})
	}
	wg.Wait()
	h.must("ensure", name)
	if v := h.settle(name); v.State != schemas.Running {
		h.t.Errorf("after all it is %s: %+v", v.State, v.Failure)
	}
	h.runs(name)
}
