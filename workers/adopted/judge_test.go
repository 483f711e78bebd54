package adopted

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// plain is a tree of two processes that can be adopted.
func plain() Facts {
	host := map[string]string{"net": "net:[1]", "pid": "pid:[2]"}
	root := Process{PID: 100, Parent: 50, Group: 100, Session: 100, Comm: "python3", State: 'S', Start: 7, Spaces: host, Root: "/", Groups: []string{"/user.slice/user-0.slice/session-1.scope"}}
	child := root
	child.PID, child.Parent, child.Comm = 101, 100, "sleep"
	return Facts{
		Root: root, Tree: []Process{root, child}, Parent: Process{PID: 50, Comm: "bash"}, Host: host,
		Asking: []int{9}, Program: "python3 count.py",
	}
}

func TestJudgePlain(t *testing.T) {
	f := plain()
	f.Warnings = []schemas.Warning{{Text: "the connection c will be closed"}}
	p := Judge(f)
	if len(p.Refused) > 0 || p.PID != 100 || p.Program != "python3 count.py" || !slices.Equal(p.Pids, []int{100, 101}) {
		t.Errorf("the plan is %+v", p)
	}
	all := strings.Join(p.Lost, "\n")
	for _, want := range []string{"only this host", "100, 101", "files stay the host's", "nothing isolates it", "its parent bash (pid 50)", "ends when process 100 ends", "the connection c will be closed"} {
		if !strings.Contains(all, want) {
			t.Errorf("the plan doesn't say %q:\n%s", want, all)
		}
	}
	f.Parent = Process{PID: 1, Comm: "init"}
	if all := strings.Join(Judge(f).Lost, "\n"); strings.Contains(all, "its parent") {
		t.Errorf("what init takes in has no parent that waits for it:\n%s", all)
	}
}

func TestJudgeRefuses(t *testing.T) {
	root := func(change func(*Process)) func(*Facts) {
		return func(f *Facts) {
			change(&f.Root)
			f.Tree[0] = f.Root
		}
	}
	child := func(change func(*Process)) func(*Facts) { return func(f *Facts) { change(&f.Tree[1]) } }
	for name, c := range map[string]struct {
		change func(*Facts)
		pid    int
		says   string
	}{
		"init":               {root(func(p *Process) { p.PID = 1 }), 1, "the machine's first process"},
		"kernel":             {root(func(p *Process) { p.Kernel = true }), 100, "a thread of the kernel"},
		"zombie":             {root(func(p *Process) { p.State = 'Z' }), 100, "it has ended"},
		"the one that asks":  {child(func(p *Process) { p.PID = 9 }), 9, "a process of Diapause"},
		"diapause":           {child(func(p *Process) { p.Diapause = true }), 101, "a process of Diapause"},
		"a session":          {root(func(p *Process) { p.Groups = []string{"/", "/diapause/host-1/uid"} }), 100, "a session of Diapause already"},
		"a container":        {root(func(p *Process) { p.Spaces = map[string]string{"net": "net:[1]", "pid": "pid:[3]"} }), 100, "namespaces of its own (pid)"},
		"chroot":             {child(func(p *Process) { p.Root = "/srv" }), 101, "its root is /srv"},
		"a service":          {root(func(p *Process) { p.Groups = []string{"/system.slice/nginx.service"} }), 100, "the service nginx.service"},
		"a terminal":         {root(func(p *Process) { p.Terminal = true }), 100, "controlling terminal"},
		"another session":    {root(func(p *Process) { p.Session = 50 }), 100, "session 50"},
		"another group":      {child(func(p *Process) { p.Group = 50 }), 101, "process group 50"},
		"stopped":            {child(func(p *Process) { p.State = 'T' }), 101, "it is stopped"},
		"what CRIU can't do": {func(f *Facts) { f.Blockers = []driver.Blocker{{PID: 101, What: "fd 3: io_uring"}} }, 101, "io_uring"},
	} {
		f := plain()
		f.Tree = slices.Clone(f.Tree)
		c.change(&f)
		p := Judge(f)
		if len(p.Refused) != 1 || p.Refused[0].PID != c.pid || !strings.Contains(p.Refused[0].String(), c.says) {
			t.Errorf("%s: refused %v", name, p.Refused)
		}
	}
}

// What is of a person's own manager, or a zombie that the tree hasn't waited for, is no reason to refuse.
func TestJudgeAccepts(t *testing.T) {
	f := plain()
	f.Root.Groups = []string{"/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope", "/diapause"}
	f.Tree[0] = f.Root
	f.Tree[1] = Process{PID: 101, State: 'Z', Session: 3}
	if p := Judge(f); len(p.Refused) > 0 {
		t.Errorf("refused %v", p.Refused)
	}
	f.Root.Spaces = maps.Clone(f.Root.Spaces)
	f.Root.Spaces["time"] = "time:[9]" // as CRIU gives what it restores
	f.Tree[0] = f.Root
	if p := Judge(f); len(p.Refused) > 0 {
		t.Errorf("refused %v", p.Refused)
	}
}

func TestPidList(t *testing.T) {
	var tree []Process
	for pid := range 10 {
		tree = append(tree, Process{PID: pid})
	}
	if got := pidList(tree); got != "0, 1, 2, 3, 4, 5, 6, 7 and 2 more" {
		t.Error(got)
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a) b (c) S 7 42 40 34816 42 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8123 1 1"
	want := Process{PID: 42, Parent: 7, Group: 42, Session: 40, Terminal: true, Comm: "a) b (c", State: 'S', Start: 8123}
	if p, err := parseStat(line); err != nil || p.PID != want.PID || p.Parent != want.Parent || p.Group != want.Group || p.Session != want.Session ||
		!p.Terminal || p.Comm != want.Comm || p.State != want.State || p.Start != want.Start || p.Kernel {
		t.Errorf("it is %+v, %v", p, err)
	}
	kernel := "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 0 0"
	if p, err := parseStat(kernel); err != nil || !p.Kernel || p.Terminal {
		t.Errorf("it is %+v, %v", p, err)
	}
	for _, bad := range []string{"", "1 (a", "1 (a) S", "x (a) S 7 42 40 0 42 0 1 0 0 0 0 0 0 0 20 0 1 0 8123"} {
		if p, err := parseStat(bad); err == nil {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}
