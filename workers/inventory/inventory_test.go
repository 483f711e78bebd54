package inventory

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stopped starts a program that stands still, and gives its pid and a file that it writes and maps.
func stopped(t testing.TB) (pid int, file string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	file = filepath.Join(t.TempDir(), "a:[b")
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", "-c", `
import mmap, os, select, signal, socket, sys, threading, time
f = open(sys.argv[1], "w+b"); f.truncate(8192); m = mmap.mmap(f.fileno(), 8192); g = open("/etc/passwd")
open("/proc/self/comm", "w").write("a) R (b")
e = select.epoll(); r, w = os.pipe(); e.register(r, select.EPOLLIN); os.write(w, b"three")
a, b = socket.socketpair(); a.send(b"data")
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(); c = socket.create_connection(l.getsockname()); s, _ = l.accept(); c.send(b"bytes")
n = os.eventfd(7, os.EFD_SEMAPHORE)
threading.Thread(target=signal.pause, daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
`, file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
	})
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, file
}

// TestEqual has two lists of one process: nothing differs, and taking one changes nothing.
func TestEqual(t *testing.T) {
	t.Parallel()
	pid, _ := stopped(t)
	first, err := Take([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Take([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	if got := Compare(first, second, false); len(got) > 0 {
		t.Errorf("two lists of one process differ: %v", got)
	}
	if first.Digest() != second.Digest() {
		t.Error("two lists of one process have different digests")
	}
	other, err := Take([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if first.Digest() == other.Digest() || len(Compare(first, other, false)) == 0 {
		t.Error("two processes have the same")
	}
	for _, want := range []string{"semaphore", "counter", "bytes in it", "awaited file", "connection", "listens", "mapped file", "CPU affinity"} {
		found := false
		for _, f := range first.objects {
			for _, x := range f {
				found = found || strings.HasPrefix(x.aspect, want)
			}
		}
		if !found {
			t.Errorf("the list lacks %q", want)
		}
	}
	for o, f := range first.objects {
		for _, x := range f {
			if _, _, known := classOf(x.aspect); !known {
				t.Errorf("%s: the aspect %q has no class", o, x.aspect)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	list := func(change func(inv *Inventory)) *Inventory {
		inv := &Inventory{programs: map[int]string{6: "vim"}, objects: map[Object]facts{
			{6, ""}: {{"controlling terminal", "/dev/pts/0"}, {aspectPending, "0000000000000200"}}, {6, "fd 3"}: {{"file", "/a"}, {"lock", "x"}, {"lock", "y"}},
			{6, "fd 4"}: {{"connection", "1 with b"}}, {6, "fd 5"}: {{"file", "/b"}, {aspectNumber, "77"}, {"lock", "LEASE BREAKING READ 6 0 EOF"}}, {6, "timer 0"}: {{"signal", "34"}},
		}, flows: map[string]flow{"a to b": {100, 60, 40}}}
		if change != nil {
			change(inv)
		}
		return inv
	}
	for _, c := range []struct {
		name   string
		change func(inv *Inventory)
		want   string
		class  Class
	}{
		{"nothing", func(*Inventory) {}, "", ""},
		{"terminal", func(i *Inventory) { i.objects[Object{6, ""}][0].value = "none" }, `vim (pid 6): controlling terminal is "none" instead of "/dev/pts/0"`, Refuse},
		{"locks in another order", func(i *Inventory) { f := i.objects[Object{6, "fd 3"}]; f[1], f[2] = f[2], f[1] }, "", ""},
		{"a lock", func(i *Inventory) { i.objects[Object{6, "fd 3"}] = i.objects[Object{6, "fd 3"}][:2] }, `vim (pid 6, fd 3): lock is "x" instead of "x; y"`, Warn},
		{"another file", func(i *Inventory) { i.objects[Object{6, "fd 5"}][1].value = "78" }, `vim (pid 6, fd 5): inode number is "78" instead of "77"`, Refuse},
		{"a file of the view's own", func(i *Inventory) { i.objects[Object{6, "fd 5"}][1].value = unknown }, "", ""},
		{"a number that isn't compared", func(i *Inventory) {
			i.objects[Object{6, "fd 3"}] = append(i.objects[Object{6, "fd 3"}], fact{aspectNumber, "9"})
		}, "", ""},
		{"a descriptor", func(i *Inventory) { delete(i.objects, Object{6, "fd 3"}) }, "vim (pid 6, fd 3) is missing", Refuse},
		{"more", func(i *Inventory) { i.objects[Object{6, "fd 9"}] = facts{{"file", "/b"}} }, "vim (pid 6, fd 9) was not there before", Warn},
		{"all", func(i *Inventory) { clear(i.objects) }, "vim (pid 6) is missing", Refuse},
		{"data that moved", func(i *Inventory) { i.flows["a to b"] = flow{0, 0, 140} }, "", ""},
		{"data that was read", func(i *Inventory) { i.flows["a to b"] = flow{0, 0, 100} }, "", ""},
		{"data that is lost", func(i *Inventory) { i.flows["a to b"] = flow{0, 0, 40} }, `the connection from a to b: bytes on their way is "40" instead of "140"`, Refuse},
		{"a timer's signal", func(i *Inventory) { i.objects[Object{6, ""}][1].value = "0000000200002200" }, "", ""},
		{"a lease's signal", func(i *Inventory) { i.objects[Object{6, ""}][1].value = "0000000010000200" }, `vim (pid 6): pending SIGIO of a lease is "0000000010000200" instead of "0000000000000200"`, Warn},
		{"another signal", func(i *Inventory) { i.objects[Object{6, ""}][1].value = "0000000000000201" }, `vim (pid 6): pending signals is "0000000000000201" instead of "0000000000000200"`, Refuse},
		{"a lost signal", func(i *Inventory) { i.objects[Object{6, ""}][1].value = "0000000000000000" }, `vim (pid 6): pending signals is "0000000000000000" instead of "0000000000000200"`, Refuse},
	} {
		got := Compare(list(nil), list(c.change), false)
		switch {
		case c.want == "" && len(got) > 0, c.want != "" && len(got) != 1:
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		case c.want != "" && (got[0].String() != c.want || got[0].Class != c.class || got[0].Why == ""):
			t.Errorf("%s: %s, class %s; want %q, %s", c.name, got[0], got[0].Class, c.want, c.class)
		}
	}
	closed := list(func(i *Inventory) { i.objects[Object{6, "fd 4"}][0].value, i.flows = "7 with ", nil })
	if got := Compare(list(nil), closed, true); len(got) > 0 {
		t.Errorf("connections that are closed: %v", got)
	}
}

// TestFlags compares flags of memory that the kernel shows in one part or in several.
func TestFlags(t *testing.T) {
	t.Parallel()
	list := func(smaps string) *Inventory {
		inv := &Inventory{programs: map[int]string{6: "vim"}, objects: map[Object]facts{
			{6, "mapping 1000"}: {{"mapped file", ""}}, {6, "mapping 9000"}: {{"mapped file", "/a at 0"}},
		}}
		inv.noteFlags(6, smaps)
		return inv
	}
	part := func(at, flags string) string {
		return at + " rw-p 00000000 00:00 0 \nSize:                  4 kB\nVmFlags: rd wr mr mw me " + flags + "\n"
	}
	before := list(part("1000-2000", "lo sd") + part("2000-4000", "lo") + part("4000-5000", "") + part("9000-a000", "dd hg"))
	for name, c := range map[string]struct{ smaps, want string }{
		"joined":   {part("1000-4000", "lo ac") + part("4000-5000", "sr") + part("9000-a000", "dd hg"), "[]"},
		"shorter":  {part("1000-3000", "lo") + part("3000-5000", "") + part("9000-a000", "dd hg"), `[vim (pid 6, mapping 1000): mapping's flags is "lo from 1000 to 3000" instead of "lo from 1000 to 4000"]`},
		"moved":    {part("1000-4000", "lo") + part("4000-5000", "wf") + part("9000-a000", "dd hg"), `[vim (pid 6, mapping 1000): mapping's flags is "lo from 1000 to 4000; wf from 4000 to 5000" instead of "lo from 1000 to 4000"]`},
		"lost":     {part("1000-4000", "lo") + part("9000-a000", "hg"), `[vim (pid 6, mapping 9000): mapping's flags is "hg from 9000 to a000" instead of "dd hg from 9000 to a000"]`},
		"all lost": {part("1000-4000", "lo") + part("9000-a000", ""), `[vim (pid 6, mapping 9000): mapping's flags is "" instead of "dd hg from 9000 to a000"]`},
	} {
		if got := fmt.Sprint(Compare(before, list(c.smaps), false)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestConnectionsNumberNothing: a copy without the original's connections has the same numbers for all else.
func TestConnectionsNumberNothing(t *testing.T) {
	t.Parallel()
	number := func(connections int) string {
		first := &collector{objects: map[Object]facts{}, pid: 6}
		for i := range connections {
			first.ends = append(first.ends, end{own: fmt.Sprintf("127.0.0.1:%d", 1000+i), peer: "192.0.2.1:443"})
		}
		second, o := &collector{objects: map[Object]facts{}, pid: 7}, Object{7, "fd 3"}
		second.noteNumbered(o, "file", "pipe", "77")
		return joined([]*collector{first, second}).objects[o][0].value
	}
	if with, without := number(11), number(0); with != without {
		t.Errorf("a pipe is %q with connections and %q without", with, without)
	}
}

// TestNumbersByOrder: what several processes have is numbered by the order of their pids within
// the session, whichever was looked at first, and counted once.
func TestNumbersByOrder(t *testing.T) {
	t.Parallel()
	var parts []*collector
	for pid := range 3 {
		c := &collector{objects: map[Object]facts{}, pid: pid}
		c.noteNumbered(Object{pid, "fd 0"}, "file", "pipe", "900")
		c.noteNumbered(Object{pid, "fd 1"}, "file", "socket", fmt.Sprint(800-pid))
		c.ends = []end{{"a", "b", flow{waiting: 9, unsent: 4}, flow{received: 1 + pid}}}
		parts = append(parts, c)
	}
	parts[2].ends = append(parts[2].ends, end{"b", "a", flow{waiting: 2}, flow{received: 5}})
	inv := joined(parts)
	for pid := range 3 {
		for fd, want := range []string{"pipe 1", fmt.Sprint("socket ", pid+2)} {
			if got := inv.objects[Object{pid, fmt.Sprint("fd ", fd)}][0].value; got != want {
				t.Errorf("of pid %d descriptor %d is %q, want %q", pid, fd, got, want)
			}
		}
	}
	if got, back := inv.flows["a to b"], inv.flows["b to a"]; got != (flow{9, 4, 5}) || back != (flow{2, 0, 1}) {
		t.Errorf("the connection has %v and %v", got, back)
	}
}

// TestManyProcesses takes a tree of many processes again and again: nothing differs.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	var pids []int
	for range 5 {
		pid, _ := stopped(t)
		pids = append(pids, pid)
	}
	first, err := Take(pids)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Processes()) != len(pids) {
		t.Fatalf("it lists %v", first.Processes())
	}
	slices.Reverse(pids)
	for range 5 {
		again, err := Take(pids)
		if err != nil {
			t.Fatal(err)
		}
		if got := Compare(first, again, false); len(got) > 0 || first.Digest() != again.Digest() {
			t.Fatalf("two lists of the same processes differ: %v", got)
		}
	}
	if _, err := Take(append(pids, 1<<22+1)); err == nil {
		t.Error("a process that isn't there is listed")
	}
}
