package criu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/confine"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// limitsOf prints the limits of a process: its sets of capabilities, whether system calls are
// filtered, by how many filters, and no_new_privs.
const limitsOf = `awk '/^(Cap(Inh|Prm|Eff|Bnd|Amb)|Seccomp|Seccomp_filters|NoNewPrivs):/ { printf "%%s%%s ", $1, $2 }' /proc/%s/status`

// wantLimits is what limitsOf prints.
func wantLimits(capabilities uint64, filters, noNewPrivs int) string {
	mode := 0
	if filters > 0 {
		mode = 2
	}
	return fmt.Sprintf("CapInh:%016[1]x CapPrm:%016[2]x CapEff:%016[2]x CapBnd:%016[2]x CapAmb:%016[1]x NoNewPrivs:%[5]d Seccomp:%[3]d Seccomp_filters:%[4]d",
		0, capabilities, mode, filters, noNewPrivs)
}

// wantLimited checks what a new command, the leader and init may do.
func (s *session) wantLimited(when string, capabilities uint64, filters, noNewPrivs int) {
	s.t.Helper()
	want := wantLimits(capabilities, filters, noNewPrivs)
	for _, process := range []string{"self", "1", "$(pgrep -o -f '1000|threading')"} {
		if got := s.sh(fmt.Sprintf(limitsOf, process)); got != want {
			s.t.Errorf("%s process %s has\n%s, want\n%s", when, process, got, want)
		}
	}
}

func capabilitiesOf(t *testing.T, spec schemas.Spec) uint64 {
	t.Helper()
	l, err := confine.Of(spec)
	if err != nil {
		t.Fatal(err)
	}
	return l.Capabilities
}

func TestLimitsOfProcesses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *schemas.Spec){
		"default":    func(*schemas.Spec) {},
		"no network": func(s *schemas.Spec) { s.Network = "none" },
		"loosened":   func(s *schemas.Spec) { s.CapAdd, s.Seccomp = []string{"SYSLOG"}, schemas.Unconfined },
		"tightened":  func(s *schemas.Spec) { s.CapDrop, s.NoNewPrivs = []string{"ALL"}, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := schemas.Spec{Command: []string{"/bin/sleep", "1000"}}
			change(&spec)
			filters, noNewPrivs := 1, 0
			if spec.Seccomp != "" {
				filters = 0
			}
			if spec.NoNewPrivs {
				noNewPrivs = 1
			}
			s := begin(t, open(t, t.TempDir()), "s", spec)
			s.wantLimited("a new session's", capabilitiesOf(t, spec), filters, noNewPrivs)
			for range 2 {
				s.cycle()
				s.wantLimited("after a resume", capabilitiesOf(t, spec), filters, noNewPrivs)
			}
		})
	}
}

// An image of a session that was allowed more, as all were before there were filters, is
// restored with today's limits.
func TestOlderImagesGetTheLimits(t *testing.T) {
	t.Parallel()
	spec := schemas.Spec{
		// Threads with and without a filter of their own, one that filters all of its threads, and
		// a process that has ended and that its parent doesn't wait for.
		Command: []string{"/usr/bin/python3", "-c", threadsWithFilters},
		CapAdd:  []string{"NET_RAW", "SYS_ADMIN"}, Seccomp: schemas.Unconfined, Network: "host",
	}
	s := begin(t, open(t, t.TempDir()), "s", spec)
	s.want("ready")
	const all = `for t in /proc/[0-9]*/task/*; do p=${t#/proc/}; grep -q sleep $t/comm 2>/dev/null && continue; ` +
		`awk -v t=$(cat $t/comm 2>/dev/null) '/^State/ { z = $2 } /^(CapBnd|CapEff|Seccomp_filters):/ { o = o " " $2 } END { print t, z == "Z" ? "ended" : "" o }' $t/status 2>/dev/null; done | grep -E '^(plain|one|all|main|alone|init|gone)' | sort`
	before := s.sh(all)
	s.spec.CapAdd, s.spec.Seccomp = nil, ""
	img := s.suspend()
	s.resume(img, schemas.BootResume)
	more := fmt.Sprintf(" %016x", capabilitiesOf(t, spec))
	less := fmt.Sprintf(" %016x", capabilitiesOf(t, s.spec))
	// Each has one filter more than before.
	want := strings.NewReplacer(more, less, " 0\n", " 1\n", " 1\n", " 2\n", " 2\n", " 3\n").Replace(before + "\n")
	want = strings.TrimSpace(want)
	if got := s.sh(all); got != want {
		t.Errorf("before it was\n%s\nafter it is\n%s\nwant\n%s", before, got, want)
	}
	s.cycle()
	if got := s.sh(all); got != want {
		t.Errorf("after one more resume it is\n%s\nwant\n%s", got, want)
	}
	s.wantLimited("of an older image", capabilitiesOf(t, s.spec), 1, 0)
}

// threadsWithFilters is a program of several threads, of which some make uname fail by a filter.
const threadsWithFilters = `
import ctypes, os, struct, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def name(n): libc.prctl(15, n.encode(), 0, 0, 0)
code = b"".join(struct.pack("HBBI", *i) for i in [(0x20, 0, 0, 0), (0x15, 0, 1, 63), (0x06, 0, 0, 0x50000 | 13), (0x06, 0, 0, 0x7fff0000)])
buf = ctypes.create_string_buffer(code)
prog = struct.pack("HxxxxxxQ", 4, ctypes.addressof(buf))
def load(flags):
    if libc.syscall(317, 1, flags, prog) != 0: raise OSError(ctypes.get_errno(), "seccomp")
r, w = os.pipe()
def idle(n, flags=None):
    name(n)
    if flags is not None: load(flags)
    os.write(w, b"x")
    while True: time.sleep(1000)
def start(n, flags=None): threading.Thread(target=idle, args=(n, flags), daemon=True).start()
def fork(n, *flags):
    if os.fork() == 0:
        start("plain")
        if n == "main": start("one", 0)
        for f in flags: load(f)
        idle(n)
fork("all", 1, 1)
fork("main")
fork("alone")
gone = os.fork()
if gone == 0:
    name("gone"); os._exit(0)
os.waitid(os.P_PID, gone, os.WEXITED | os.WNOWAIT)
for i in range(7): os.read(r, 1)
name("main")
print("ready", flush=True)
time.sleep(100000)
`

// Programs load filters of their own below the session's, which a resume keeps.
func TestFiltersWithinTheFilter(t *testing.T) {
	t.Parallel()
	s := begin(t, open(t, t.TempDir()), "s", answering(``, `
		# uname fails with EACCES from the first question on
		my $code = pack("SCCL" x 4, 0x20,0,0,0, 0x15,0,1,63, 6,0,0,0x50000|13, 6,0,0,0x7fff0000);
		my $r = $n == 1 ? syscall(157, 38, 1, 0, 0, 0) || syscall(317, 1, 0, pack("Sx6P", 4, $code)) : 0;
		my $u = "\0" x 400; my $v = syscall(63, $u);
		$r . " " . $v . " " . ($! + 0) . " " . syscall(321, 0, 0, 0) . " " . ($! + 0)`))
	s.want("ready")
	const want = "0 -1 13 -1 1" // and bpf with EPERM
	if got := s.ask("1", "question"); got != want {
		t.Fatalf("before a resume it has %q, want %q", got, want)
	}
	for _, n := range []string{"2", "3"} {
		s.cycle()
		if got := s.ask(n, "question"); got != want {
			t.Errorf("after a resume it has %q, want %q", got, want)
		}
	}
	if got := s.sh("grep Seccomp_filters /proc/$(pgrep -x perl)/status"); !strings.HasSuffix(got, "\t2") {
		t.Errorf("after resumes it has %s", got)
	}
}

func TestBadLimitsAreRefused(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	for _, spec := range []schemas.Spec{
		{Command: []string{"true"}, CapAdd: []string{"NET_EVERYTHING"}},
		{Command: []string{"true"}, Seccomp: "{"},
	} {
		if _, err := d.Start(limited(t), drivertest.Fence("s", 1), spec, drivertest.Begin); err == nil || driver.KindOf(err) != driver.Refused {
			t.Errorf("%+v gives %v", spec, err)
		}
	}
}
