package examples

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// agents runs the callbacks for agents: of what they say, checkpoints are made, and an
// agent without a server does what it does.
func (b bench) agents() {
	b.t.Helper()
	b.must("ensure", "work")
	b.must("hold", "work", "--for", "10m")
	b.must("policy", "set", "session:work", "checkpoints=run_boundaries,before:deploy,after:edit")
	b.nodeProgram("agent.mjs")
	python := filepath.Join(top, "python", "agent.py")
	b.agent("agent.py", "before", "deploy", "python3", python, "work")
	b.agent("agent.mjs", "after", "edit", "node", filepath.Join(b.dir, "agent.mjs"), "work")
	for _, command := range [][]string{{"python3", python, "work"}, {"node", filepath.Join(b.dir, "agent.mjs"), "work"}} {
		b.ended(b.start("NATS_URL=nats://127.0.0.1:1", "", strings.NewReader("deploy\n"), command[0], command[1:]...))
	}
}

// agent runs one that does an action, and looks whether there are checkpoints of its run's
// begin, of that action and of its end.
func (b bench) agent(by, trigger, action string, command ...string) {
	b.t.Helper()
	run := "run-of-" + by
	in, acts := io.Pipe()
	b.t.Cleanup(func() { acts.Close() })
	cmd := b.start("NATS_URL="+b.URL, "", in, "env", append([]string{"RUN_ID=" + run}, command...)...)
	b.snapshot(run, "run_start", "an agent of the examples", by)
	if _, err := fmt.Fprintf(acts, "read\n%s\n", action); err != nil {
		b.t.Error(err)
	}
	b.snapshot(run, trigger, action, by)
	acts.Close()
	b.ended(cmd)
	b.snapshot(run, "run_end", "an agent of the examples", by)
}

// snapshot waits for one that was made for a run, and looks at what it says of itself.
func (b bench) snapshot(run, trigger, description, by string) {
	b.t.Helper()
	b.until(trigger+" of "+run, func() bool {
		var all []schemas.SnapshotView
		if err := json.Unmarshal([]byte(b.must("snapshots", "--json", "work")), &all); err != nil {
			b.t.Fatal(err)
		}
		for _, s := range all {
			if s.RunID == run && s.Trigger == trigger && s.By != "" { // it is in the log, too
				if s.Description != description || s.By != "agent:"+by || !strings.Contains(s.Reason, run) {
					b.t.Errorf("the snapshot at %s of %s says %+v", trigger, run, s)
				}
				return true
			}
		}
		return false
	})
}
