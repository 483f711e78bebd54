package attack

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/services/datadir"
	"github.com/diapause/diapause/workers/network/networktest"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// target is a running Diapause with bait beside it.
type target struct {
	*stack.Stack
	t       *testing.T
	dir     string
	program string // of the attempts
	facts   Facts
	outside *networktest.Outside

	mu    sync.Mutex
	heard map[string]bool // what came as a datagram with the mark
}

const aimed = "victim" // the session that is another's

// aim starts all of it.
func aim(t *testing.T) *target {
	t.Helper()
	s, dir := stack.Fresh(t)
	g := &target{Stack: s, t: t, dir: dir, program: filepath.Join(dir, "inside"), heard: map[string]bool{}}
	g.must(local.Build(t.Context(), "e2e", "./attack/inside", g.program))
	g.outside = networktest.New(t)
	hidden, store := filepath.Join(dir, "secret", "token"), filepath.Join(dir, "store")
	g.must(os.Mkdir(filepath.Dir(hidden), 0o700))
	g.must(os.WriteFile(hidden, []byte("token"), 0o600))
	g.must(s.Up("--docker", "none", "--http", "127.0.0.1:0", "--hide", hidden, "--store", "dir://"+store, "--advertise", net.JoinHostPort(g.outside.Host.String(), "0")))
	g.facts = Facts{
		Data: s.Data, Hidden: hidden, Store: store, Mark: "mark-" + rand.Text(), Bait: filepath.Join(dir, "bait"), Devices: g.devices(), Other: aimed,
		Abstract: "diapause-attack-" + rand.Text(), Secrets: []string{filepath.Join(s.Data, "keys/identity.txt"), filepath.Join(s.Data, "creds/system.nk")},
		Services: map[string]string{
			Plain: address(s.URL), Secure: address(s.Secure), Metadata: "169.254.169.254:80",
			Loopback: g.listen("tcp", "127.0.0.1:0"), Host4: g.listen("tcp", net.JoinHostPort(g.outside.Host.String(), "0")),
			Host6: g.listen("tcp", net.JoinHostPort(g.outside.Host6.String(), "0")),
		},
	}
	at := regexp.MustCompile(`clients connect to (\S+) for`).FindStringSubmatch(s.Log())
	if at == nil {
		t.Fatalf("up doesn't say what it advertises:\n%s", s.Log())
	}
	g.facts.Services[Advertised] = at[1]
	if at = regexp.MustCompile(`HTTP API: http://([^/]+)/`).FindStringSubmatch(s.Log()); at == nil {
		t.Fatalf("up doesn't say where its HTTP API is:\n%s", s.Log())
	}
	g.facts.Services[HTTP] = at[1]
	g.bait()
	g.verb("run", "--name", aimed, "--network", private, "--idle", "never", "--env", "SECRET="+g.facts.Mark, "--",
		"python3", "-m", "http.server", "--bind", "::", "8000", "--directory", "/var/empty-"+g.facts.Mark)
	g.neighbor()
	return g
}

func (g *target) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *target) verb(args ...string) string {
	g.t.Helper()
	out, err := g.Must(args...)
	g.must(err)
	return out
}

func address(url string) string { return strings.TrimPrefix(url, "nats://") }

// listen serves an address of the host: who connects is let go again.
func (g *target) listen(network, at string) string {
	g.t.Helper()
	l, err := net.Listen(network, at)
	g.must(err)
	g.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

// bait makes what sessions would find if they saw the host's own.
func (g *target) bait() {
	f := &g.facts
	in := func(name string) string { return filepath.Join(f.Bait, name) }
	g.must(os.Mkdir(f.Bait, 0o777))
	g.must(os.WriteFile(in(BaitFile), []byte("bait"), 0o600))
	g.must(os.MkdirAll(in("removed/deep"), 0o755))
	g.must(unix.Mkfifo(in(BaitPipe), 0o666))
	pipe, err := os.OpenFile(in(BaitPipe), os.O_RDWR, 0)
	g.must(err)
	g.t.Cleanup(func() { pipe.Close() })
	g.listen("unix", in(BaitSocket))
	g.listen("unix", "@"+f.Abstract)
	g.must(unix.Mknod(in(BaitDevice), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 11)))) // the kernel's log
	shared := "/dev/shm/" + BaitShared
	g.must(os.WriteFile(shared, []byte(f.Mark), 0o666))
	g.t.Cleanup(func() { os.Remove(shared) })
	f.IPC = 0x64690000 + os.Getpid()
	id, err := unix.SysvShmGet(f.IPC, 4096, unix.IPC_CREAT|0o666)
	g.must(err)
	g.t.Cleanup(func() {
		if _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err != nil {
			g.t.Error(err)
		}
	})
	// A process of the host with the mark in its arguments and its environment.
	c := exec.Command("sleep", "100000")
	c.Args[0], c.Env = "sleep-"+f.Mark, []string{"SECRET=" + f.Mark}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	g.must(threadtest.Start(c))
	g.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	f.PIDs = append(f.PIDs, c.Process.Pid)
	g.datagrams()
}

// datagrams sends the mark on the loopback device, and takes what is sent to the host.
func (g *target) datagrams() {
	in, err := net.ListenPacket("udp", net.JoinHostPort(g.outside.Host.String(), "0"))
	g.must(err)
	g.facts.Services[Datagrams] = in.LocalAddr().String()
	var all sync.WaitGroup
	all.Go(func() {
		for b := make([]byte, 1<<10); ; {
			n, _, err := in.ReadFrom(b)
			if err != nil {
				return
			}
			g.mu.Lock()
			g.heard[string(b[:n])] = true
			g.mu.Unlock()
		}
	})
	out, err := net.Dial("udp", "127.0.0.1:9")
	g.must(err)
	done := make(chan struct{})
	all.Go(func() {
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				_, _ = out.Write([]byte(g.facts.Mark)) // that no one takes it is no matter
			case <-done:
				return
			}
		}
	})
	g.t.Cleanup(func() { close(done); in.Close(); out.Close(); all.Wait() })
}

// devices are the device nodes of the host that sessions don't have.
func (g *target) devices() (all []string) {
	own := map[string]bool{"null": true, "zero": true, "full": true, "random": true, "urandom": true, "tty": true, "ptmx": true}
	g.must(filepath.WalkDir("/dev", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && (path == "/dev/pts" || path == "/dev/shm") {
			return fs.SkipDir
		}
		if err == nil && e.Type()&fs.ModeDevice != 0 && !own[filepath.Base(path)] {
			all = append(all, path)
		}
		return nil
	}))
	return all
}

// neighbor finds the addresses of the session that is another's, and the processes of Diapause.
func (g *target) neighbor() {
	g.t.Helper()
	index := strings.TrimSpace(g.verb("exec", aimed, "--", "cat", "/sys/class/net/eth0/iflink"))
	links, err := net.Interfaces()
	g.must(err)
	for _, l := range links {
		var hi, lo byte
		if fmt.Sprint(l.Index) != index {
			continue
		}
		if _, err := fmt.Sscanf(l.Name, "diap%02x%02x", &hi, &lo); err != nil {
			g.t.Fatalf("%s: %v", l.Name, err)
		}
		g.facts.Services[Neighbor4] = fmt.Sprintf("198.18.%d.%d:8000", hi, lo)
		g.facts.Services[Neighbor6] = fmt.Sprintf("[fd64:6961:7061:1::%02x%02x]:8000", hi, lo)
	}
	for end := time.Now().Add(time.Minute); g.Do("exec", aimed, "--", "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8000").Code != 0; {
		if time.Now().After(end) {
			g.t.Fatal("the other session doesn't serve its port")
		}
	}
	up, err := datadir.Locate(g.Data)
	g.must(err)
	g.facts.PIDs = append(append(g.facts.PIDs, up.PID), g.PIDs()...)
	if len(g.facts.PIDs) < 4 {
		g.t.Fatalf("the processes of Diapause aren't found: %v", g.facts.PIDs)
	}
}

// attempts runs the program and compares what its attempts came to.
func (g *target) attempts(t *testing.T, run *exec.Cmd, want map[string][]string) {
	t.Helper()
	var errs bytes.Buffer
	run.Stderr = &errs
	out, err := run.Output()
	var all []Outcome
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, errs.Bytes())
	}
	for _, o := range all {
		ok := false
		for _, w := range want[o.What] {
			ok = ok || w == o.Refused
		}
		if !ok {
			t.Errorf("%s: refused with %s, want %s (%s)", o.What, o.Refused, strings.Join(want[o.What], " or "), o.Text)
		}
		delete(want, o.What)
	}
	for what := range want {
		t.Errorf("%s wasn't tried", what)
	}
}

// told are the variables of the program.
func told(f Facts, place string) []string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // of a struct of text and numbers
	}
	return []string{FactsVariable + "=" + string(text), PlaceVariable + "=" + place}
}

// wants gives what the attempts of a place are to be refused with, in a network.
func wants(place, network string) map[string][]string {
	all := map[string][]string{}
	for _, a := range Places[place]() {
		if a.Only != "" && network != "" && a.Only != network {
			continue
		}
		all[a.What] = a.Want
		if network == host && a.Host != nil {
			all[a.What] = a.Host
		}
	}
	return on(place, all)
}

// on gives what attempts come to on this machine: one without calls of 32-bit programs refuses them to root, too.
func on(place string, all map[string][]string) map[string][]string {
	if i386Here() {
		return all
	}
	for _, a := range Places[place]() {
		if _, tried := all[a.What]; tried && a.I386 {
			all[a.What] = []string{string(noSuchCalls)}
		}
	}
	return all
}

// inside makes the attempts of a place in a session.
func (g *target) inside(t *testing.T, name, network, place string) {
	t.Helper()
	f := g.facts
	f.Name, f.Network = name, network
	args := []string{"--data", g.Data, "exec", name}
	for _, v := range told(f, place) {
		args = append(args, "--env", v)
	}
	g.attempts(t, exec.CommandContext(t.Context(), g.Program, append(args, "--", g.program)...), wants(place, network))
}

// controls has root of the host try what must succeed there.
func (g *target) controls(t *testing.T, place string) {
	t.Helper()
	want := map[string][]string{}
	for _, a := range Places[place]() {
		if a.Control {
			want[a.What] = []string{Succeeded}
		}
	}
	run := exec.CommandContext(t.Context(), g.program)
	run.Env = append(os.Environ(), append(told(g.facts, place), HostVariable+"=1")...)
	g.attempts(t, run, on(place, want))
}
