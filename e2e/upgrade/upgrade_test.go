package upgrade

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// sessions are what the older program had made when it ended.
type sessions struct {
	runs, sleeps, saved, twin, failing *counter
	names                              []string // of all of them
}

func (s *sessions) running() []*counter { return []*counter{s.runs, s.saved, s.twin, s.failing} }

// failingSuspend has the first suspend of the older daemon fail.
const failingSuspend = "DIAPAUSE_FAILPOINTS=worker.capture.begun=error"

// make makes sessions of every kind that there is.
func (i *installation) make() *sessions {
	i.t.Helper()
	s := &sessions{}
	i.must("policy", "set", "class:automation", "grace=1h", "counts=input,exec,hold", "--reason", "a test")
	i.must("policy", "set", "tenant:default", "quota=sessions:100,running:50")
	i.must("key", "add", "--name", "second", reader)
	s.failing = i.start("failing")
	i.must("policy", "set", "session:failing", "backoff=1h") // its pause outlasts the test
	if r := i.Do("suspend", "failing"); r.Code == 0 {
		i.t.Fatal("the suspend that was to fail didn't")
	}
	s.runs = i.start("runs", "--class", "automation", "--env", "KEY=value", "--memory", "200M", "--pids", "50", "--on-resume", "echo resumed >>/tmp/hooks")
	s.sleeps = i.start("sleeps", "--on-host-loss", "resume", "--on-resume", "echo resumed >>/tmp/hooks")
	s.saved = i.start("saved")
	for _, c := range []*counter{s.failing, s.runs, s.sleeps, s.saved} {
		c.goesOn(i, false)
	}
	i.must("suspend", "sleeps")
	i.must("checkpoint", "saved")
	i.must("fork", "saved", "twin")
	s.twin = &counter{name: "twin", n: s.saved.n}
	s.twin.goesOn(i, false)
	i.must("policy", "set", "session:saved", "life=12h", "keep=count:5")
	i.must("hold", "saved", "--for", "2h", "--reason", "a test")
	i.must("run", "--name", "idle", "--class", "automation", "--", "sleep", "100000")
	i.must("run", "--name", "ended", "--", "sh", "-c", "echo out; exit 3")
	i.until("a session ends", func() bool { return i.view("ended").State == schemas.Exited })
	i.must("run", "--name", "typed", "--tty", "--idle", "never", "--", "sh", "-c", "while read x; do echo got $x; done")
	i.typed("typed", "earlier\n")
	i.must("run", "--name", "gone", "--", "sleep", "1000")
	i.must("rm", "--yes", "gone")
	s.names = []string{"ended", "failing", "idle", "runs", "saved", "sleeps", "twin", "typed"}
	return s
}

// typed types into a session's terminal and gives what that shows then.
func (i *installation) typed(name, text string) (out string) {
	i.t.Helper()
	i.attach(name, text)
	i.until("session "+name+" answers", func() bool {
		out = i.must("logs", name)
		return strings.Contains(out, "got "+strings.TrimSpace(text))
	})
	return out
}

// reader is the recipient of a key that is nowhere.
const reader = "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg"

// TestSessionsAreTakenOver upgrades a data directory whose daemon was asked to end, and one
// whose daemon was killed.
func TestSessionsAreTakenOver(t *testing.T) {
	for name, kill := range map[string]bool{"down": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t, failingSuspend)
			s := i.make()
			before := i.answers(s.names)
			i.upgrade(kill)
			i.compare(before, i.answers(s.names))
			i.running(s)
			i.suspended(s)
			i.rest(s)
		})
	}
}

// volatile are the fields that change from one moment to the next.
var volatile = []string{
	"for", "idle_seconds", "rss_bytes", "processes", "running_seconds", "suspended_seconds", "other_seconds", "stored_byte_seconds",
	"text", "until", "next", "score", "from", "to", "heard_seq", "intake", "last_use", "last_use_seq",
}

// compare holds what the newer client says to what the older one said.
func (i *installation) compare(before, after map[string]any) {
	i.t.Helper()
	for command, was := range before {
		problems := missing(command, was, after[command])
		if verb, _, _ := strings.Cut(command, " "); verb != "policy" || strings.Contains(command, "get") {
			problems = append(problems, differing(command, was, after[command], volatile)...)
		}
		for _, p := range problems {
			i.t.Error(p)
		}
	}
}

// running checks what ran: it was never stopped, and is served and suspended as before.
func (i *installation) running(s *sessions) {
	i.t.Helper()
	for _, c := range s.running() {
		c.goesOn(i, false)
	}
	if out := i.must("exec", "runs", "--", "sh", "-c", "echo $KEY; cat"); !strings.Contains(out, "value") {
		i.t.Errorf("a command in a session of the older program prints %q", out)
	}
	for _, c := range []*counter{s.runs, s.failing} {
		i.must("suspend", c.name)
		if v := i.is(c.name, schemas.Suspended); v.Failure != nil {
			i.t.Errorf("session %s keeps the failure %+v", c.name, v.Failure)
		}
		i.must("ensure", c.name)
		c.goesOn(i, true)
		i.confined(c)
	}
	if out := i.must("exec", "runs", "--", "cat", "/tmp/hooks"); out != "resumed\n" {
		i.t.Errorf("the hook of a resume left %q", out)
	}
}

// confined checks that a session that the newer program has restored keeps the network that it was made with, which is the
// host's, and that nothing of it can read there what others say.
func (i *installation) confined(c *counter) {
	i.t.Helper()
	host, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		i.t.Fatal(err)
	}
	out := i.must("exec", c.name, "--", "sh", "-c", "readlink /proc/self/ns/net; grep ^Cap /proc/self/status")
	inside, status, _ := strings.Cut(out, "\n")
	if inside != host {
		i.t.Errorf("session %s has the network %s, had the host's, %s", c.name, inside, host)
	}
	i.cannotListen(c.name, status)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		i.t.Fatal(err)
	}
	i.cannotListen(c.name, string(text))
}

// cannotListen checks that no set of capabilities of a process has CAP_NET_RAW.
func (i *installation) cannotListen(name, status string) {
	i.t.Helper()
	sets := capabilities.FindAllStringSubmatch(status, -1)
	if len(sets) != 5 {
		i.t.Fatalf("the capabilities of session %s are %q", name, status)
	}
	for _, set := range sets {
		if has, err := strconv.ParseUint(set[2], 16, 64); err != nil || has&(1<<unix.CAP_NET_RAW) != 0 {
			i.t.Errorf("session %s has %s with CAP_NET_RAW, %v", name, set[0], err)
		}
	}
}

var capabilities = regexp.MustCompile(`(?m)^(Cap\w+):\s*([0-9a-f]+)$`)

// suspended checks what slept, and the snapshots that there were.
func (i *installation) suspended(s *sessions) {
	i.t.Helper()
	i.must("verify", "sleeps")
	i.must("ensure", "sleeps")
	s.sleeps.goesOn(i, true)
	i.confined(s.sleeps)
	if out := i.must("exec", "sleeps", "--", "cat", "/tmp/hooks"); out != "resumed\n" {
		i.t.Errorf("the hook of a resume left %q", out)
	}
	snapshot := i.view("saved").Snapshot
	if snapshot == nil {
		i.t.Fatal("the checkpoint is gone")
	}
	i.must("rollback", "saved", snapshot.ID)
	s.saved.n = 0
	s.saved.goesOn(i, true)
	i.confined(s.saved)
	i.must("fork", "sleeps", "another")
	(&counter{name: "another", n: s.sleeps.n}).goesOn(i, true)
}

// rest checks policies, ends, and that the log and the store are sound.
func (i *installation) rest(s *sessions) {
	i.t.Helper()
	if out := i.must("explain", "saved"); !strings.Contains(out, "a test") {
		i.t.Errorf("the hold isn't explained: %s", out)
	}
	if v := i.is("ended", schemas.Exited); v.Exit == nil || v.Exit.Code != 3 {
		i.t.Errorf("the exit is %+v", v.Exit)
	}
	if out := i.must("logs", "ended"); out != "out\n" {
		i.t.Errorf("what ended had printed %q", out)
	}
	if out := i.typed("typed", "later\n"); !strings.Contains(out, "got earlier") || !strings.Contains(out, "got later") {
		i.t.Errorf("the terminal shows %q", out)
	}
	i.must("kill", "twin")
	i.must("rm", "--yes", "twin")
	i.must("policy", "set", "class:automation", "grace=1s")
	i.until("an idle session is suspended", func() bool { return i.view("idle").State == schemas.Suspended })
	i.must("audit", "--verify")
	i.must("store", "check", "--read-data")
}
