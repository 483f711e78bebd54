package driver

import (
	"fmt"
	"slices"
	"strings"
)

// named is how many of the processes that one cause has are named.
const named = 8

// byCause says each cause once, with the processes that have it, in the order in which the
// first of them comes.
func byCause(all []Blocker) []string {
	var texts []string
	for i, b := range all {
		same := func(o Blocker) bool { return o.object() == b.object() && o.Why == b.Why && o.Fix == b.Fix }
		if slices.ContainsFunc(all[:i], same) {
			continue
		}
		var pids []string
		count := 0
		for _, o := range all[i:] {
			if !same(o) {
				continue
			}
			count++
			if who := fmt.Sprintf("%d (%s)", o.PID, o.Program); !slices.Contains(pids, who) {
				pids = append(pids, who)
			}
		}
		if count == 1 {
			texts = append(texts, b.String())
			continue
		}
		texts = append(texts, fmt.Sprintf("%s have %s: %s; %s", holders(pids), b.object(), b.Why, b.Fix))
	}
	return texts
}

// holders names some processes.
func holders(pids []string) string {
	if len(pids) == 1 {
		return "several descriptors of process " + pids[0]
	}
	some, rest := pids, ""
	if len(some) > named {
		some, rest = some[:named], ", …"
	}
	return fmt.Sprintf("%d processes, %s%s,", len(pids), strings.Join(some, ", "), rest)
}

// object is What without the number that a process has for it.
func (b Blocker) object() string {
	if head, rest, ok := strings.Cut(b.What, ": "); ok && strings.HasPrefix(head, "fd ") {
		return rest
	}
	return b.What
}
