package tree

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary be the process that is looked at.
func TestMain(m *testing.M) {
	if role := os.Getenv("TREE_TEST_ROLE"); role != "" {
		if err := play(role, os.Getenv("TREE_TEST_ARG")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play does what a test wants to see from outside, says so by a line, and stays
// until its input ends.
func play(role, arg string) error {
	said := "ready"
	switch role {
	case "listen":
		l, err := listen("127.0.0.1:0")
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Println("accepted")
				defer c.Close()
			}
		}()
		said = l.Addr().String()
	case "dial":
		c, err := net.Dial("tcp", arg)
		if err != nil {
			return err
		}
		said = c.LocalAddr().String()
	case "hold":
		b := make([]byte, 64<<20)
		for i := range b {
			b[i] = byte(i)
		}
		defer fmt.Fprintln(os.Stderr, len(b))
	}
	fmt.Println(said)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return nil
}

func listen(addr string) (net.Listener, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	return lc.Listen(context.Background(), "tcp", addr)
}

// child starts the test binary in a role and returns what it said first.
func child(t *testing.T, role, arg string) (pid int, said string, out *bufio.Reader) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TREE_TEST_ROLE="+role, "TREE_TEST_ARG="+arg)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	out = bufio.NewReader(pipe)
	said, err = out.ReadString('\n')
	if err != nil {
		t.Fatalf("%s said nothing: %v", role, err)
	}
	return cmd.Process.Pid, strings.TrimSpace(said), out
}

// ended is the id of a process that is no more.
func ended(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("/bin/true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestMemory(t *testing.T) {
	pid, _, _ := child(t, "hold", "")
	n, err := Memory([]int{pid, ended(t)})
	if err != nil || n < 64<<20 || n > 512<<20 {
		t.Errorf("%d bytes (%v), want 64 MiB and what a Go program takes", n, err)
	}
}

func TestConnectionFromOutsideIsInbound(t *testing.T) {
	pid, addr, out := child(t, "listen", "")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	all, err := Connections([]int{pid, ended(t)})
	if err != nil || len(all) != 1 {
		t.Fatalf("connections %v (%v), want one", all, err)
	}
	want := Connection{PID: pid, Local: netip.MustParseAddrPort(addr), Remote: netip.MustParseAddrPort(c.LocalAddr().String()), Established: true, Inbound: true}
	if all[0] != want {
		t.Errorf("%+v, want %+v", all[0], want)
	}
	if got := all[0].String(); got != addr+" from "+c.LocalAddr().String() {
		t.Errorf("it reads %q", got)
	}
}

func TestConnectionToOutside(t *testing.T) {
	l, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pid, local, _ := child(t, "dial", l.Addr().String())
	all, err := Connections([]int{pid})
	if err != nil || len(all) != 1 || all[0].Inside || all[0].Inbound || all[0].Local.String() != local {
		t.Errorf("connections %+v (%v), want one from %s, neither inside nor inbound", all, err, local)
	}
}

func TestConnectionInside(t *testing.T) {
	server, addr, out := child(t, "listen", "")
	client, _, _ := child(t, "dial", addr)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	all, err := Connections([]int{server, client})
	if err != nil || len(all) != 2 {
		t.Fatalf("connections %v (%v), want both ends of one", all, err)
	}
	for _, c := range all {
		if !c.Inside || c.Inbound || !c.Established {
			t.Errorf("%+v: want it inside and established", c)
		}
	}
}

func TestConnectionNotAccepted(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 5); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	pid, _, _ := child(t, "dial", fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port))
	all, err := Connections([]int{os.Getpid()})
	i := slices.IndexFunc(all, func(c Connection) bool { return c.Pending })
	if err != nil || i < 0 || !all[i].Inbound || !all[i].Established {
		t.Errorf("connections %+v (%v), want one that waits to be accepted", all, err)
	}
	all, err = Connections([]int{os.Getpid(), pid})
	if i := slices.IndexFunc(all, func(c Connection) bool { return c.PID == pid }); err != nil || i < 0 || !all[i].Inside {
		t.Errorf("connections %+v (%v), want the client's inside", all, err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	create := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.WriteString(name); err != nil {
			t.Fatal(err)
		}
		return f
	}
	plain, gone, odd := create("plain"), create("gone"), create("odd (deleted)")
	if err := os.Remove(gone.Name()); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Mmap(int(plain.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	all, err := Files([]int{os.Getpid(), ended(t)}, "/")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		path            string
		deleted, mapped bool
	}{{plain.Name(), false, true}, {gone.Name(), true, false}, {odd.Name(), false, false}, {exe, strings.HasSuffix(exe, " (deleted)"), true}} {
		i := slices.IndexFunc(all, func(f File) bool { return f.Path == strings.TrimSuffix(want.path, " (deleted)") || f.Path == want.path })
		if i < 0 {
			t.Errorf("%s isn't listed", want.path)
			continue
		}
		if f := all[i]; f.Deleted != want.deleted || f.Mapped != want.mapped {
			t.Errorf("%+v: want deleted %v, mapped %v", f, want.deleted, want.mapped)
		}
	}
	i := slices.IndexFunc(all, func(f File) bool { return f.Path == gone.Name() })
	if b, err := os.ReadFile(all[i].Via); err != nil || string(b) != "gone" {
		t.Errorf("the file without a name reads %q (%v)", b, err)
	}
}

func TestFilesBelowARoot(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := Files([]int{os.Getpid()}, dir)
	if err != nil || !slices.ContainsFunc(all, func(f File) bool { return f.Path == "/x" }) {
		t.Errorf("files %+v (%v), want /x", all, err)
	}
}

func TestFilesLeavesMemoryOut(t *testing.T) {
	if _, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED|syscall.MAP_ANON); err != nil {
		t.Fatal(err)
	}
	all, err := Files([]int{os.Getpid()}, "")
	if err != nil || slices.ContainsFunc(all, func(f File) bool { return strings.HasPrefix(f.Path, "/dev/zero") }) {
		t.Errorf("files %+v (%v), want no /dev/zero", all, err)
	}
}

func TestParseMapping(t *testing.T) {
	m, ok := parseMapping("7f0a1c000000-7f0a1c021000 r-xp 00000000 fd:01 131                /usr/lib/a name\n")
	if want := (Mapping{Start: 0x7f0a1c000000, End: 0x7f0a1c021000, Path: "/usr/lib/a name", device: "fd:01", inode: "131"}); !ok || m != want {
		t.Errorf("%+v %v, want %+v", m, ok, want)
	}
	m, ok = parseMapping("7ffd0-7ffd1 rw-p 00000000 00:00 0 \n")
	if !ok || m.Named() {
		t.Errorf("%+v %v, want one without a name", m, ok)
	}
	if _, ok := parseMapping("nonsense\n"); ok {
		t.Error("nonsense was taken for a mapping")
	}
}

func TestParseAddr(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000000000000000000001000000:0016": "[::1]:22",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
	} {
		if got, err := parseAddr(in); err != nil || got.String() != want {
			t.Errorf("%s is %v (%v), want %s", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "0100007F", "xx:1", "01:0050"} {
		if got, err := parseAddr(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}
