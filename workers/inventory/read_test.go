package inventory

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/diapause/diapause/workers/tree"
)

// TestReads counts the files that a look reads: each once, and no others.
func TestReads(t *testing.T) {
	t.Parallel()
	pid, _ := stopped(t)
	want := map[string]int{
		"status": 1, "stat": 1, "limits": 1, "personality": 1, "oom_score_adj": 1, "coredump_filter": 1, "timers": 1, "maps": 1,
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil || len(tasks) != 2 {
		t.Fatalf("its threads are %v, %v", tasks, err)
	}
	for _, task := range tasks {
		want["task/"+task.Name()+"/syscall"] = 1
		if task.Name() != strconv.Itoa(pid) {
			want["task/"+task.Name()+"/status"], want["task/"+task.Name()+"/stat"] = 1, 1
		}
	}
	fds, err := tree.FDs(pid)
	if err != nil || len(fds) == 0 {
		t.Fatalf("its descriptors are %v, %v", fds, err)
	}
	for _, fd := range fds {
		want[fmt.Sprintf("fdinfo/%d", fd.Num)] = 1
	}
	got, read := map[string]int{}, newReader()
	inv, err := take([]int{pid}, func() reader {
		return func(pid int, name string) string { // of one process, one call at a time
			got[name]++
			return read(pid, name)
		}
	}, numbersOfRoot)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("it reads %v, want %v", got, want)
	}
	if name := inv.programs[inv.Processes()[0].Inner]; name != "a) R (b" {
		t.Errorf("the program's name is %q", name)
	}
}

// TestProcesses has a look hand on what it saw: what is open for writing, and what is mapped.
func TestProcesses(t *testing.T) {
	t.Parallel()
	pid, file := stopped(t)
	inv, err := Take([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Processes()) != 1 {
		t.Fatalf("its processes are %v", inv.Processes())
	}
	p := inv.Processes()[0]
	if p.PID != pid || p.Inner != innermost(newReader()(pid, "status"), "NSpid:") {
		t.Errorf("the process %d is %d, %d", pid, p.PID, p.Inner)
	}
	writes := func(path string) bool {
		return slices.ContainsFunc(p.Writable, func(fd tree.FD) bool { return fd.Link == path })
	}
	unnamed := slices.ContainsFunc(p.Writable, func(fd tree.FD) bool { return fd.Link[0] != '/' })
	if !writes(file) || writes("/etc/passwd") || unnamed {
		t.Errorf("open for writing are %v", p.Writable)
	}
	shared, code := 0, 0
	for _, m := range p.Mappings {
		switch {
		case m.Path == file:
			if !m.Shared || m.End-m.Start != 8192 {
				t.Errorf("the shared file is mapped as %+v", m)
			}
			shared++
		case m.Path == "[vdso]":
			code++
		case m.Path == "":
			t.Errorf("a mapping without a name: %+v", m)
		}
	}
	if shared != 1 || code != 1 {
		t.Errorf("its mappings are %+v", p.Mappings)
	}
}

// TestReader reads files that are larger than the buffer, empty and not there.
func TestReader(t *testing.T) {
	t.Parallel()
	read := newReader()
	large := make([]byte, 3*readSize+1)
	for i := range large {
		large[i] = byte(i / readSize)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"large": large, "empty": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := read(os.Getpid(), "root"+filepath.Join(dir, name)); got != string(content) {
			t.Errorf("of the %s file of %d bytes it reads %d", name, len(content), len(got))
		}
	}
	if got := read(os.Getpid(), "absent"); got != "" {
		t.Errorf("of a file that isn't there it reads %q", got)
	}
}

// BenchmarkTake looks at one process of two threads with some ten descriptors.
func BenchmarkTake(b *testing.B) {
	pid, _ := stopped(b)
	for b.Loop() {
		if _, err := Take([]int{pid}); err != nil {
			b.Fatal(err)
		}
	}
}
