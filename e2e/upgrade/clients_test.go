package upgrade

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// steps are commands that change sessions, in an order in which they work. SNAPSHOT
// stands for the last snapshot of the first session.
var steps = []string{
	"run --name one --idle never -- sleep 100000", "show one", "checkpoint one", "snapshots one", "wait one --state running", "suspend one",
	"suspend one", "verify one", "resume one", "fork one two", "rollback one SNAPSHOT", "kill one", "resume --clean one",
	"explain two", "history two", "rm --yes two", "rm --yes one",
}

// refusals are commands that fail, with their exit codes.
var refusals = map[string]int{
	"show nothing":                              3,
	"suspend nothing":                           3,
	"rm --yes nothing":                          3,
	"run --name runs -- sleep 1":                4,
	"suspend ended":                             4,
	"checkpoint sleeps":                         4,
	"ensure ended":                              4,
	"rollback runs none":                        2,
	"run --name x --memory lots -- sh":          2,
	"policy set all grace=never":                2,
	"wait runs --state suspended --timeout 1ms": 5,
}

// TestAnswersAreCompatible holds the JSON and the exit codes of the newer program to those
// of the older one: nothing that a script reads is gone. The older client on the newer
// server has to work, too: a fleet isn't upgraded at one moment.
func TestAnswersAreCompatible(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.must("run", "--name", "runs", "--idle", "never", "--", "sleep", "100000")
	i.must("run", "--name", "sleeps", "--idle", "never", "--", "sleep", "100000")
	i.must("suspend", "sleeps")
	i.must("run", "--name", "ended", "--", "true")
	i.must("wait", "ended")
	before := i.walk()
	i.refuses()
	i.upgrade(false)
	for _, program := range []string{newer, older} {
		i.Program = program
		after := i.walk()
		for _, step := range slices.Sorted(maps.Keys(before)) {
			for _, p := range missing(step, before[step], after[step]) {
				t.Errorf("%s: %s", program, p)
			}
		}
		i.refuses()
	}
	i.Program = newer
}

// walk goes through the steps, and gives what each printed.
func (i *installation) walk() map[string]any {
	i.t.Helper()
	all, snapshot := map[string]any{}, ""
	for n, step := range steps {
		command, rest, _ := strings.Cut(step, " -- ")
		args := append(strings.Fields(strings.Replace(command, "SNAPSHOT", snapshot, 1)), "--json")
		if rest != "" {
			args = append(append(args, "--"), strings.Fields(rest)...)
		}
		out := i.must(args...)
		var answer any
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			i.t.Fatalf("%s prints %q: %v", step, out, err)
		}
		all[fmt.Sprintf("%02d %s", n, step)] = answer
		if strings.HasPrefix(step, "checkpoint ") {
			snapshot = i.view("one").Snapshot.ID
		}
	}
	return all
}

func (i *installation) refuses() {
	i.t.Helper()
	for command, code := range refusals {
		if r := i.Do(strings.Fields(command)...); r.Code != code || r.Err == "" {
			i.t.Errorf("%s: %s has exit code %d, want %d: %s", i.Program, command, r.Code, code, r.Err)
		}
	}
}
