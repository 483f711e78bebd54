package attack

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// ending is what is said to end, shorten or crowd out a lease that others placed.
type ending struct{ what, want string }

const goesOn = "the session runs on"

// endings are the words, and by whom each is said: NAME is the session's name.
func endings() (rows []ending) {
	for _, who := range []string{"another user", "root without credentials", "the session's own programs"} {
		for _, w := range leaseWords {
			rows = append(rows, ending{who + ": " + w.what, goesOn})
		}
	}
	return rows
}

// word is a message, or several.
type word struct {
	what, subject, payload string
	times                  int // with another key each, in place of KEY
}

var leaseWords = []word{
	{"release its key", "hold.cli", `{"released":true}`, 1},
	{"the same of work under way", "busy.build", `{"released":true}`, 1},
	{"place it again for a millisecond", "hold.cli", `{"ttl":"1ms"}`, 1},
	{"place it again without a word that can be read", "hold.cli", `{`, 1},
	{"release it by a CloudEvent", "hold.cli", `{"specversion":"1.0","id":"1","source":"x","type":"diapause.activity","time":"2001-01-01T00:00:00Z","data":{"released":true}}`, 1},
	{"release it as others are marked", "hold.cli.~0", `{"released":true}`, 1},
	{"place more leases than are remembered", "hold.KEY", `{"ttl":"1h"}`, 300},
	{"release them all", "hold.KEY", `{"released":true}`, 300},
	{"answer the question for it", "hold.defer", `{"ttl":"1s"}`, 1},
	{"say that a program came back", "input", `{"intent":"reconnect"}`, 1},
	{"a trigger that no policy asks for", "agent.run_end", `{"action":"exit"}`, 1},
	{"a kind that there isn't", "idle", `{}`, 1},
	{"an exit that there wasn't", "exit", `{"code":0}`, 1},
	{"a generation that there wasn't", "generation", `{"generation":99}`, 1},
	{"a policy", "policy", `{"grace":"0s","counts":[]}`, 1},
}

// lines are the messages of a word, for a client that speaks the protocol by hand.
func (w word) lines(name string) (out []string) {
	for n := range w.times {
		subject := strings.ReplaceAll("diapause.v1.activity.default."+name+"."+w.subject, "KEY", fmt.Sprint("k", n))
		out = append(out, fmt.Sprintf("PUB %s %d\r\n%s", subject, len(w.payload), w.payload))
	}
	return out
}

// What anyone says without credentials can put a suspend off, and does nothing else: no lease of another ends by it.
func TestLeasesOfOthers(t *testing.T) {
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	must := func(args ...string) {
		t.Helper()
		if _, err := s.Must(args...); err != nil {
			t.Fatal(err)
		}
	}
	const grace = "2s"
	attacks := map[string]func(name string, w word) error{
		"user":   func(name string, w word) error { return sayAs(stranger, address(s.URL), w.lines(name)...) },
		"root":   func(name string, w word) error { return sayAs(0, address(s.URL), w.lines(name)...) },
		"inside": func(name string, w word) error { return sayInside(s, name, w) },
	}
	// Each has a lease with credentials, and one that a publisher without them placed, as user 1.
	for who := range attacks {
		must("run", "--name", who, "--idle", grace, "--", "sleep", "100000")
		must("hold", who, "--for", "1h")
		must("run", "--name", who+"-stranger", "--idle", grace, "--", "sleep", "100000")
		placed := word{subject: "hold.cli", payload: `{"ttl":"1h"}`, times: 1}
		if err := sayAs(1, address(s.URL), placed.lines(who+"-stranger")...); err != nil {
			t.Fatal(err)
		}
	}
	for who, attack := range attacks {
		for _, name := range []string{who, who + "-stranger"} {
			for _, w := range leaseWords {
				if err := attack(name, w); err != nil {
					t.Errorf("%s, %s: %v", who, w.what, err)
				}
			}
		}
	}
	// What was said is heard by when another session, made afterwards, is found idle.
	must("run", "--name", "control", "--idle", grace, "--", "sleep", "100000")
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		v, err := s.View("control")
		if err != nil {
			t.Fatal(err)
		}
		if v.State == schemas.Suspended {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a session without leases is %s", v.State)
		}
	}
	for who := range attacks {
		for _, name := range []string{who, who + "-stranger"} {
			if v, err := s.View(name); err != nil || v.State != schemas.Running {
				t.Errorf("session %s is %s though it is held: %s, %v", name, v.State, v.LastTransition.Reason, err)
			}
		}
	}
	restartAndRelease(t, s)
}

// restartAndRelease has all that is stored read again, and then a person end all holds.
func restartAndRelease(t *testing.T, s *stack.Stack) {
	t.Helper()
	if _, err := s.Must("explain", "user"); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"user", "user-stranger"} {
		out, err := s.Must("explain", name)
		if err != nil || !strings.Contains(out, "hold.cli") {
			t.Errorf("after a restart session %s isn't held: %s, %v", name, out, err)
		}
	}
	if out, err := s.Must("explain", "user-stranger"); err != nil || !strings.Contains(out, "without credentials, of uid 1)") {
		t.Errorf("explain doesn't say whose hold it is: %s, %v", out, err)
	}
	if _, err := s.Must("release", "user-stranger"); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Must("explain", "user-stranger"); err != nil || strings.Contains(out, "of uid 1)") {
		t.Errorf("a person can't end a stranger's hold: %s, %v", out, err)
	}
}

// sayAs speaks to the NATS server as a user of this machine.
func sayAs(uid int, at string, lines ...string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		return err
	}
	c, err := net.Dial("tcp", at)
	if _, backErr := unix.SetfsuidRetUid(0); backErr != nil {
		panic(backErr) // the thread is of no more use
	}
	if err != nil {
		return err
	}
	defer c.Close()
	return say(c, "", lines...)
}

// sayInside has a program of the session publish at its activity port.
func sayInside(s *stack.Stack, name string, w word) error {
	const script = `port=$(sed 's|.*nats://\([^"]*\)".*|\1|' ` + generation + `); exec 3<>/dev/tcp/${port%:*}/${port##*:}; cat >&3; while read -r line <&3; do case $line in PONG*) exit 0;; -ERR*) echo "$line"; exit 1;; esac; done`
	c := exec.Command(s.Program, "--data", s.Data, "exec", name, "--", "bash", "-c", script)
	c.Stdin = strings.NewReader("CONNECT {\"verbose\":false,\"pedantic\":false}\r\n" + strings.Join(append(w.lines(name), "PING"), "\r\n") + "\r\n")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
