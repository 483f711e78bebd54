package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Fact is one thing that Check found, in words for a person.
type Fact struct {
	Name   string // "cgroup freezer"
	OK     bool
	Detail string // what serves it, or what goes without it
	Fix    string // one sentence; empty if OK
}

// Check says what of a session's needs the hierarchies serve, and for what is
// missing what goes without it and how to get it.
func (h *Hierarchy) Check() []Fact {
	facts := []Fact{{Name: "cgroup version", OK: true, Detail: h.describe()}}
	for _, need := range []struct{ controller, without string }{
		{freezer, "sessions can't be frozen"},
		{memory, "--memory is refused, and a session's use isn't known"},
		{cpu, "--cpus is refused"},
		{cpuacct, "a busy session can't be told from an idle one"},
		{pids, "--pids is refused"},
	} {
		facts = append(facts, h.checkOne(need.controller, need.without))
	}
	return facts
}

func (h *Hierarchy) checkOne(controller, without string) Fact {
	f := Fact{Name: "cgroup " + controller}
	i, ok := h.layout.serves[controller]
	if !ok {
		f.Detail, f.Fix = "missing: "+without, fixFor(controller)
		return f
	}
	m := h.layout.mounts[i]
	dir := filepath.Join(m.point, h.parent)
	if m.version == 2 && !delegated(dir, controller) {
		f.Detail = fmt.Sprintf("not switched on in %s: %s", dir, without)
		f.Fix = "start the worker again, so that it switches the controller on"
		return f
	}
	f.OK, f.Detail = true, fmt.Sprintf("v%d, %s", m.version, dir)
	return f
}

// delegated reports whether the children of a version 2 directory have the
// controller; what is in the core needs none.
func delegated(dir, controller string) bool {
	if controller == freezer || controller == cpuacct {
		return true
	}
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	return err == nil && slices.Contains(strings.Fields(string(b)), controller)
}

// describe names the hierarchies that are used.
func (h *Hierarchy) describe() string {
	words := make([]string, len(h.layout.mounts))
	for i, m := range h.layout.mounts {
		words[i] = m.String()
	}
	return strings.Join(words, "; ")
}

func fixFor(controller string) string {
	if controller == memory {
		return "boot the kernel with cgroup_enable=memory and let the container see that controller"
	}
	return fmt.Sprintf("use a kernel that has the %s controller and let the container see it", controller)
}
