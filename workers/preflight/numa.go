package preflight

import (
	"fmt"
	"os"
	"strings"
)

// severalNodes reports whether this machine's memory is in more than one place: a list as
// /sys/devices/system/node/has_memory has it, "0-1" or "0,2". With one node a policy of memory
// changes nothing.
func severalNodes(list string) bool { return strings.ContainsAny(list, "-,") }

// nodes is where the kernel lists the nodes that have memory.
const nodes = "/sys/devices/system/node/has_memory"

// gatherPolicies notes the processes that have a policy of memory, where that matters. The
// kernel counts pages for it, some 20 ms per GiB.
func gatherPolicies(f *Facts) {
	if b, err := os.ReadFile(nodes); err != nil || !severalNodes(strings.TrimSpace(string(b))) {
		return
	}
	for i := range f.Processes {
		p := &f.Processes[i]
		if p.State == 'Z' {
			continue
		}
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", p.PID))
		p.Policy = policyOf(string(b))
	}
}

// policyOf gives the first policy in a text like numa_maps that isn't the default one; empty if
// there is none. A line is "7f0000 interleave:0-1 anon=1 N0=1".
func policyOf(text string) string {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] != "default" {
			return fields[1]
		}
	}
	return ""
}
