package criu

import (
	"cmp"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/shim/criu/mends"
)

//go:embed testdata/programs
var programs embed.FS

// update has TestKept write what it compares with.
var update = flag.Bool("update", false, "write KEPT.md")

// cycles is how often each program is suspended and resumed: some defects show the second time.
const cycles = 3

// checked is a program that checks itself.
type checked struct {
	name, text string
	rows       []row
	free       bool // it runs with all capabilities
	unfiltered bool // it may use any system call
}

// row is what a program shows of one kernel object, as a comment of it says:
//
//	#: object | state | kept
//	#: object | state | refused: what the blocker says it is
//	#: object | state | warned: a part of the warning
//	#: object | state | rehearsed: a part of the warning, which the rehearsal gives alone
//	#: object | state | changed: how it comes back
//
// A program may begin with a line that says what its session may do:
//
//	#! capabilities
//	#! capabilities and system calls
type row struct {
	object, state, verdict, detail, program string
}

func readPrograms(t *testing.T) (prelude string, all []checked) {
	t.Helper()
	files, err := fs.Glob(programs, "testdata/programs/*.py")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d programs: %v", len(files), err)
	}
	for _, file := range files {
		text, err := programs.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := checked{name: strings.TrimSuffix(path.Base(file), ".py"), text: string(text)}
		if p.name == "prelude" {
			prelude = p.text
			continue
		}
		first, _, _ := strings.Cut(p.text, "\n")
		p.free, p.unfiltered = strings.HasPrefix(first, "#! capabilities"), first == "#! capabilities and system calls"
		for line := range strings.Lines(p.text) {
			rest, ok := strings.CutPrefix(line, "#: ")
			if !ok {
				continue
			}
			f := strings.Split(strings.TrimSpace(rest), " | ")
			if len(f) != 3 {
				t.Fatalf("%s: row %q has %d columns, want 3", p.name, line, len(f))
			}
			verdict, detail, _ := strings.Cut(f[2], ": ")
			if !slices.Contains([]string{"kept", "refused", "warned", "rehearsed", "changed"}, verdict) || (verdict == "kept") != (detail == "") {
				t.Fatalf("%s: row %q has the verdict %q", p.name, line, f[2])
			}
			p.rows = append(p.rows, row{f[0], f[1], verdict, detail, p.name})
		}
		if len(p.rows) == 0 {
			t.Errorf("%s says nothing of what it shows", p.name)
		}
		all = append(all, p)
	}
	return prelude, all
}

// details lists what the rows of a verdict say.
func (p checked) details(verdict string) []string {
	var all []string
	for _, r := range p.rows {
		if r.verdict == verdict {
			all = append(all, r.detail)
		}
	}
	return all
}

// rawSockets is what some programs need for their sockets.
var rawSockets = []string{"NET_RAW"}

// spec is that of the session that a program runs in.
func (p checked) spec(prelude string) schemas.Spec {
	spec := schemas.Spec{
		Command: []string{"/usr/bin/python3", "-c", prelude + p.text}, TTY: strings.HasPrefix(p.name, "terminal"),
		CapAdd: rawSockets,
	}
	if strings.Contains(p.text, "AF_NETLINK") { // which hears what other tests change of the host's network
		spec.Network = "none"
	}
	if p.free {
		spec.CapAdd = []string{"ALL"}
	}
	if p.unfiltered {
		spec.Seccomp = schemas.Unconfined
	}
	return spec
}

// TestPrograms has programs check themselves after suspends and resumes: one or more for each
// kind of thing that the kernel keeps for a process. What a program says can't be captured
// must be refused by name, and what comes back different must be warned of.
func TestPrograms(t *testing.T) {
	t.Parallel()
	prelude, all := readPrograms(t)
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open(t, t.TempDir()), p.name, p.spec(prelude))
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("its output: %q", output(t, s.d, s.uid))
				}
			})
			s.want("ready")
			if refused := p.details("refused"); len(refused) > 0 {
				s.wantRefused(refused)
			} else {
				s.checkpoint()
				s.wantWarned(p.details("warned"))
				for range cycles - 1 {
					s.cycle()
				}
			}
			s.sh("echo > /tmp/check")
			out := waitFor(t, s.d, s.uid, "answering", func(out string) bool {
				_, answer, ok := strings.Cut(out, "answer: ")
				return ok && strings.Contains(answer, "\n")
			})
			if !strings.Contains(out, "answer: ok") {
				t.Errorf("it says %q; the criu of this test lacks %v", out, mends.Missing(commandOf(t)))
			}
		})
	}
}

// checkpoint captures the session and lets it run on: its program must notice nothing.
func (s *session) checkpoint() {
	s.t.Helper()
	s.capture()
	if err := s.d.Thaw(limited(s.t), s.next()); err != nil {
		s.t.Fatal(err)
	}
}

// wantRefused expects that the session can't be captured for those reasons, and no others.
func (s *session) wantRefused(want []string) {
	s.t.Helper()
	_, err := s.d.Capture(limited(s.t), s.next(), &drivertest.Image{})
	var refused *driver.Error
	if !errors.As(err, &refused) || refused.Kind != driver.Refused {
		s.t.Fatalf("the capture ended with %v, want a refusal", err)
	}
	var got []string
	for _, b := range refused.Blockers {
		got = append(got, b.What)
	}
	matchAll(s.t, "it refuses for", got, want)
}

// wantWarned suspends and resumes the session, and expects those warnings, and no others.
func (s *session) wantWarned(want []string) {
	s.t.Helper()
	img, c := s.capture()
	var got []string
	for _, w := range c.Warnings {
		got = append(got, w.Text)
	}
	matchAll(s.t, "it warns", got, want)
	if err := s.d.Stop(limited(s.t), s.next()); err != nil {
		s.t.Fatal(err)
	}
	s.resume(img, schemas.BootResume)
}

// matchAll expects each of want to be a part of one of got, and nothing else in got.
func matchAll(t *testing.T, what string, got, want []string) {
	t.Helper()
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.Contains(g, w) }) {
			t.Errorf("%s %q, want %q", what, got, w)
		}
	}
	for _, g := range got {
		if !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(g, w) }) {
			t.Errorf("%s %q, which its rows don't say", what, g)
		}
	}
}

// kept is the document that the rows make.
const kept = "KEPT.md"

const keptHead = `# What is kept

What a session has in the kernel, and whether it is there after a resume. Each row is shown by a
program of testdata/programs, which checks itself, with the CRIU that
[build.sh](install/build.sh) makes. One without the [patches](patches/README.md) keeps less.

- **kept**: as it was.
- **refused**: the suspend is refused before anything is frozen, and says this of the file or process.
- **warned**: the suspend warns with these words.
- **rehearsed**: likewise, where it is [rehearsed](../README.md), as it is by default: only the comparison shows it.
- **changed**: it comes back as the row says, and no warning tells, for one of the reasons below.

What is changed, and why each suspend doesn't warn of it:

- **Time limits** of calls that wait start again at a resume where they are lengths of time (poll, futex, epoll_wait),
  as they do after a SIGSTOP of some of them: the kernel shows how much is left to no one. Calls
  wait so in nearly each session, and a warning at each suspend would hide the others. Limits that are points in time, timers,
  timerfds, and sleeps that ask for the rest of their time, as those of libc do, keep what is left.
- **Signals that come while the session is captured or restored** run their handlers before a read, recv, accept, wait or flock that a
  process waits in is made again, also without SA_RESTART, which would have it end with EINTR. Nothing shows from outside that
  such a signal will come. Calls that each handler ends, as poll and pause, do end.
- **CPU time** used, also of children that have ended, and the **start time** of processes begin again at the resume: no
  system call sets them. A limit of CPU time counts from there.
- **A policy of memory** (mbind, set_mempolicy) means nothing on a host with one node of memory. On others
  a suspend warns of it.
- **Device numbers of file systems** are given by the kernel, the next free one to what is mounted. All files of the root
  have one number, before and after. A program that has noted it, and looks whether a path still leads to the file that it has
  open, opens that again.
- **Inode numbers of open files without a name** change, since such a file is made again at a resume. A program that
  compares numbers looks for a path that leads to the same file, and to these none does. Many programs keep such files open, and a
  warning at each suspend would hide the others.
- **Edges** of epoll are reported once more, which epoll allows at any time.
- **Settings that only the program itself can read** (TCP_MAXSEG and TCP_WINDOW_CLAMP that were set on a connection, PR_SET_TSC,
  syscall user dispatch) and **empty packets** behind others in the queue of a unix socket: they can't be told from
  outside without stopping the program or reading its queue.

This table is written by ` + "`go test ./criu -run TestKept -update`" + `.

| object | state | after a resume | program |
| --- | --- | --- | --- |
`

func TestKept(t *testing.T) {
	_, all := readPrograms(t)
	var rows []row
	for _, p := range all {
		rows = append(rows, p.rows...)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.object, b.object), cmp.Compare(a.verdict, b.verdict), cmp.Compare(a.program, b.program))
	})
	var text strings.Builder
	text.WriteString(keptHead)
	for _, r := range rows {
		verdict := r.verdict
		if r.detail != "" {
			verdict += ": " + r.detail
		}
		fmt.Fprintf(&text, "| %s | %s | %s | `%s` |\n", r.object, r.state, verdict, r.program)
	}
	if *update {
		if err := os.WriteFile(kept, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(kept); err != nil || string(b) != text.String() {
		t.Errorf("%s isn't what the programs say (%v): run go test ./criu -run TestKept -update", kept, err)
	}
}

func commandOf(t *testing.T) []string {
	t.Helper()
	command, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return command
}

func TestMissing(t *testing.T) {
	if lacks := mends.Missing(commandOf(t)); len(lacks) > 0 {
		t.Errorf("the CRIU of these tests lacks %v: run workers/criu/install/build.sh", lacks)
	}
}
