package criu

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/shim"
)

// held are programs that a rehearsal must neither refuse nor warn of. Each writes "ready" when it has
// what its name says.
var held = []struct{ name, program string }{
	{"address of this host", `
for address in (OWN, "127.9.8.7"):
    t = socket.create_server((address, 0)); keep.append(t)
    c = socket.create_connection(t.getsockname()); a, _ = t.accept(); keep += [c, a]
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind((address, 0)); keep.append(u)
v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); v.connect(("192.0.2.77", 9))`},
	{"address of IPv6", `
t = socket.create_server(("::1", 0), family=socket.AF_INET6)
c = socket.create_connection(t.getsockname()[:2]); a, _ = t.accept()
d = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
for at in OWN6:
    u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.bind((at, 0)); keep.append(u)`},
	{"interface", `
for device in (b"lo", DEVICE.encode()):
    for family, kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_INET6, socket.SOCK_DGRAM)):
        s = socket.socket(family, kind); s.setsockopt(1, 25, device + b"\0"); s.bind(("", 0)); keep.append(s)
l = socket.socket(); l.setsockopt(1, 25, DEVICE.encode() + b"\0"); l.bind((OWN, 0)); l.listen()
p = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0); p.bind((DEVICE, 0x88b5))
m = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); m.bind(("", 0))
m.setsockopt(0, 35, socket.inet_aton("224.0.0.251") + socket.inet_aton(OWN)); m.setsockopt(0, 32, socket.inet_aton(OWN))
n = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); n.setsockopt(41, 17, struct.pack("I", INDEX))
n.setsockopt(41, 20, socket.inet_pton(socket.AF_INET6, "ff02::fb") + struct.pack("I", INDEX))`},
	{"locked memory", `
import mmap
m = mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.write(b"x" * (4 << 20))
libc = ctypes.CDLL(None); at = ctypes.addressof(ctypes.c_char.from_buffer(m))
assert libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(4 << 20)) == 0
assert libc.mlockall(2) == 0`},
	{"large file without a name", `
f = open("/tmp/ghost", "w+b"); f.write(os.urandom(1 << 20) * 48); f.flush(); os.unlink("/tmp/ghost")
g = open("/dev/shm/ghost", "w+b"); g.write(os.urandom(1 << 20) * 16); g.flush(); os.unlink("/dev/shm/ghost")`},
	{"large file with another name", `
f = open("/tmp/linked", "w+b"); f.write(os.urandom(1 << 20) * 48); f.flush(); os.link("/tmp/linked", "/tmp/other"); os.unlink("/tmp/linked")
g = open("/dev/shm/linked", "w+b"); g.write(os.urandom(1 << 20) * 16); g.flush(); os.link("/dev/shm/linked", "/dev/shm/other"); os.unlink("/dev/shm/linked")`},
	{"large file mapped", `
import mmap
for at in ("/tmp/mapped", "/dev/shm/mapped"):
    f = open(at, "w+b"); f.write(os.urandom(1 << 20) * 32); f.flush()
    keep.append(mmap.mmap(f.fileno(), 0)); keep.append(mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ))
    keep[-2][:8] = b"shared  "`},
	{"file that is appended to, in a directory without a name", `
os.mkdir("/tmp/dir"); os.chdir("/tmp/dir"); f = open("log", "a+b"); f.write(b"y" * 100000); f.flush(); os.unlink("log"); os.rmdir("/tmp/dir")`},
	{"file without write permission", `
f = open("/tmp/readonly", "w+b"); f.write(b"y" * 100000); f.flush(); os.chmod("/tmp/readonly", 0o400)
g = open("/etc/services", "rb")`},
	{"immutable program that runs", `
import shutil; shutil.copy("/bin/sleep", "/tmp/sleep"); p = subprocess.Popen(["/tmp/sleep", "1000"])
shutil.copy("/bin/sleep", "/tmp/gone"); q = subprocess.Popen(["/tmp/gone", "1000"]); os.unlink("/tmp/gone")`},
	{"job that is stopped", `
p = os.fork()
if p == 0:
    os.setpgid(0, 0); time.sleep(1000)
os.setpgid(p, p); os.kill(p, signal.SIGTSTP); os.waitpid(p, os.WUNTRACED)
q = os.fork()
if q == 0:
    os.kill(os.getpid(), signal.SIGSTOP); os._exit(0)
os.waitid(os.P_PID, q, os.WSTOPPED | os.WNOWAIT)`},
	{"many descriptors and threads", `
import threading, resource
for i in range(300):
    keep.append(os.pipe()); keep.append(socket.socketpair())
for i in range(50):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()`},
	{"memory shared by several", `
import mmap
m = mmap.mmap(-1, 32 << 20); m.write(b"s" * (32 << 20))
fd = os.memfd_create("m", os.MFD_ALLOW_SEALING); os.ftruncate(fd, 32 << 20); n = mmap.mmap(fd, 0); n.write(b"n" * (32 << 20))
if os.fork() == 0:
    time.sleep(1000)`},
}

// outer gives an interface of this host that others reach, with an address of it, or the
// loopback interface where there is none; and all IPv6 addresses but those of one link.
func outer(t *testing.T) (name, index, ipv4, ipv6 string) {
	t.Helper()
	name, index, ipv4 = "lo", "1", "127.0.0.1"
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		addresses, err := i.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addresses {
			ip, _, err := net.ParseCIDR(a.String())
			switch {
			case err != nil || ip.IsLoopback() || ip.IsLinkLocalUnicast() || i.Flags&net.FlagUp == 0:
			case ip.To4() == nil:
				ipv6 += " " + ip.String()
			case name == "lo":
				name, index, ipv4 = i.Name, strconv.Itoa(i.Index), ip.String()
			}
		}
	}
	return name, index, ipv4, ipv6
}

const holder = `
import ctypes, os, signal, socket, struct, subprocess, sys, time
keep = []; DEVICE = sys.argv[1]; INDEX = int(sys.argv[2]); OWN = sys.argv[3]; OWN6 = sys.argv[4].split()
`

// TestRehearsalOfAll has sessions of many kinds rehearsed and resumed: none is refused or warned of.
func TestRehearsalOfAll(t *testing.T) {
	t.Parallel()
	for _, h := range held {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			name, index, ipv4, ipv6 := outer(t)
			s := begin(t, open(t, t.TempDir()), "s", schemas.Spec{Command: []string{"/usr/bin/python3", "-c", holder + h.program + `
print("ready", flush=True)
while True:
    time.sleep(1000)`, name, index, ipv4, ipv6}, CapAdd: rawSockets})
			s.want("ready")
			s.rehearsed()
		})
	}
}

// rehearsed has the session rehearsed, suspended and resumed, without a warning.
func (s *session) rehearsed() {
	s.t.Helper()
	img, c, err := s.rehearse(schemas.RehearseAlways)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, w := range c.Warnings {
		s.t.Errorf("a warning: %s", w.Text)
	}
	if err := s.d.Stop(limited(s.t), s.next()); err != nil {
		s.t.Fatal(err)
	}
	s.resume(img, schemas.BootResume)
}

// TestRehearsalOfTerminal has a shell with a stopped job, one in the background and one in front
// that has /dev/tty open rehearsed.
func TestRehearsalOfTerminal(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	s := shell(t, d)
	k := attachTo(t, d, s, attach.Size{Rows: 40, Cols: 120})
	k.press("sleep 2000\n")
	foreground(t, s, "sleep")
	k.press("\x1a")
	s.want("Stopped")
	k.press("sleep 3000 & exec 7<>/dev/tty; perl -e 'open(T, \"+<\", \"/dev/tty\") or die; $| = 1; print \"open-\", 1+1, \"\\n\"; sleep 4000'\n")
	s.want("open-2")
	for range 2 {
		s.rehearsed()
		k.lost()
		k = attachTo(t, d, s, attach.Size{})
	}
	k.press("\x03")
	foreground(t, s, "")
	k.press("jobs; echo done-$((1+1))\n")
	s.want("done-2")
	if out := output(t, d, s.uid); !strings.Contains(out, "Stopped                 sleep 2000") || !strings.Contains(out, "Running                 sleep 3000") {
		t.Errorf("after resumes the shell has other jobs: %q", out)
	}
}

// TestRehearsalLocksNothing has a session with locked memory rehearsed: none of it is there in
// the copy, which is looked at while it stands before its first instruction.
func TestRehearsalLocksNothing(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	marks := t.TempDir()
	var err error
	if d.options.Failpoints, err = failpoint.Parse("shim.rehearse.stopped=stop;once=" + marks); err != nil {
		t.Fatal(err)
	}
	s := begin(t, d, "locked", schemas.Spec{Command: []string{"/usr/bin/python3", "-c", `
import ctypes, mmap, time
m = mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.write(b"x" * (4 << 20))
libc = ctypes.CDLL(None); at = ctypes.addressof(ctypes.c_char.from_buffer(m))
assert libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(4 << 20)) == 0
print("ready %x-" % at, flush=True)
time.sleep(1000)`}})
	s.want("ready")
	address := strings.Fields(output(t, d, s.uid))[1]
	copied := make(chan map[string]string, 1)
	go func() {
		stopped := standing(limited(t), filepath.Join(marks, "shim.rehearse.stopped@1"))
		copied <- mappingOf(d, shim.RehearsalGroup(s.uid), address)
		if stopped != 0 { // else the capture takes too long
			_ = syscall.Kill(stopped, syscall.SIGCONT)
		}
	}()
	if _, _, err := s.rehearse(schemas.RehearseAlways); err != nil {
		t.Errorf("it ends with %v", err)
	}
	original, c := mappingOf(d, shim.SessionGroup(s.uid), address), <-copied
	if original["Rss:"] != "4096 kB" || c["Rss:"] != "0 kB" || !strings.Contains(c["VmFlags:"], " lo") {
		t.Errorf("the copy's locked memory is %v, of %v", c, original)
	}
}

// standing waits until a process has written its pid to a file and stopped itself.
func standing(ctx context.Context, mark string) int {
	for ctx.Err() == nil {
		b, err := os.ReadFile(mark)
		pid, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil || convErr != nil {
			continue
		}
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil && strings.Contains(string(b), "\nState:\tT") {
			return pid
		}
	}
	return 0
}

// mappingOf gives what the kernel says of the mapping at an address in a process of a group.
func mappingOf(d *Driver, group, address string) map[string]string {
	g, ok := d.shims.hierarchy.Group(group)
	if !ok {
		return nil
	}
	pids, _ := g.Pids() // an empty answer fails the test
	for _, pid := range pids {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
		_, text, there := strings.Cut("\n"+string(b), "\n"+address)
		if !there {
			continue
		}
		found := map[string]string{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if _, twice := found[name]; twice {
				break
			}
			found[name] = strings.TrimSpace(value)
		}
		return found
	}
	return nil
}

// TestRehearsalFindsAddress has a session bound to an address that this host hasn't: its
// restore fails, and so the suspend does.
func TestRehearsalFindsAddress(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "bound", schemas.Spec{Command: []string{"/usr/bin/python3", "-c", `
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(0, 15, 1); s.bind(("198.51.100.7", 0)) # IP_FREEBIND
print("ready", flush=True)
time.sleep(1000)`}})
	s.want("ready")
	_, _, err := s.rehearse(schemas.RehearseAlways)
	if driver.KindOf(err) != driver.Unrestorable || !strings.Contains(err.Error(), "isn't one of this host") {
		t.Errorf("its rehearsal ends with %v", err)
	}
}

// TestRehearsalOfPrivateNetwork has a session with a network of its own rehearsed, with sockets at each of its addresses.
func TestRehearsalOfPrivateNetwork(t *testing.T) {
	t.Parallel()
	spec := schemas.Spec{Network: "private", Command: []string{"/usr/bin/python3", "-c", `
import socket, time
keep = []
for address in ("0.0.0.0", "127.0.0.1", "` + network.Inner.Addr().String() + `"):
    t = socket.create_server((address, 0)); c = socket.create_connection(t.getsockname()); keep += [t, c, t.accept()[0]]
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind((address, 0)); keep.append(u)
for _, name in socket.if_nameindex():
    s = socket.socket(); s.setsockopt(1, 25, name.encode() + b"\0"); s.bind(("", 0)); keep.append(s)
print("ready", flush=True)
time.sleep(1000)`}}
	s := begin(t, open(t, t.TempDir()), "s", spec)
	s.want("ready")
	s.rehearsed()
	s.rehearsed()
}
