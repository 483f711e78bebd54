package systemd

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

const (
	units   = "../../services/systemd"
	program = "/usr/local/bin/diapause" // where they have it
)

// within bounds a wait for the program, on a slow and busy machine.
const within = time.Minute

// TestUnits has systemd read the units, with a program that is there.
func TestUnits(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(units, "*.service"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d units: %v", len(files), err)
	}
	dir := t.TempDir()
	args := []string{"verify", "--man=no", "--recursive-errors=yes"}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), "ExecStart="+program+" ") {
			t.Errorf("%s doesn't start %s", file, program)
		}
		at := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(at, []byte(strings.ReplaceAll(string(b), program, "/bin/true")), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, at)
	}
	if out, err := exec.Command("systemd-analyze", args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze, of Debian's package systemd: %v\n%s", err, out)
	}
}

// TestConfined has systemd say how exposed the parts are that run no sessions: 10 is all, 0 nothing.
func TestConfined(t *testing.T) {
	for _, part := range []string{"scheduler", "api"} {
		out, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=15", filepath.Join(units, "diapause-"+part+".service")).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze, of Debian's package systemd, calls %s more exposed than 1.5: %v\n%s", part, err, out)
		}
		if m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out); m != nil {
			level, _ := strconv.ParseFloat(string(m[1]), 64)
			t.Logf("exposure level of %s: %.1f", part, level)
		}
	}
}

// notice is a socket in systemd's place.
type notice struct {
	t    *testing.T
	path string
	said chan string
}

func notified(t *testing.T, dir string) notice {
	t.Helper()
	n := notice{t: t, path: filepath.Join(dir, "notify-"+strconv.FormatInt(time.Now().UnixNano(), 36)), said: make(chan string, 1000)}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := os.Chmod(n.path, 0o777); err != nil { // as systemd's own is
		t.Fatal(err)
	}
	go func() {
		b := make([]byte, 1000)
		for {
			read, err := conn.Read(b)
			if err != nil {
				return
			}
			n.said <- string(b[:read])
		}
	}()
	return n
}

// hear waits until it is told something, by a program that hasn't ended.
func (n notice) hear(want string, ended <-chan struct{}, log func() string) {
	n.t.Helper()
	for late := time.After(within); ; {
		select {
		case got := <-n.said:
			if got == want {
				return
			}
			continue
		case <-ended:
		case <-late:
		}
		n.t.Fatalf("it doesn't say %s:\n%s", want, log())
	}
}

// TestNotify has the real program tell that it is ready and alive, and that it stops, and a session of it run on.
func TestNotify(t *testing.T) {
	dir, err := stack.Dir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary, err := stack.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := notified(t, dir)
	s := stack.New(binary, filepath.Join(dir, "data"))
	s.Env = append(os.Environ(), "NOTIFY_SOCKET="+n.path, "WATCHDOG_USEC=300000")
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	n.hear("READY=1", nil, s.Log)
	n.hear("WATCHDOG=1", nil, s.Log)
	if _, err := s.Must("run", "--name", "s", "--", "sh", "-c", `env | grep -E "NOTIFY|WATCHDOG"; echo "none of systemd's"; sleep 1000`); err != nil {
		t.Fatal(err)
	}
	out := ""
	for end := time.Now().Add(within); !strings.Contains(out, "systemd's"); time.Sleep(20 * time.Millisecond) {
		if out, err = s.Must("logs", "s"); err != nil || time.Now().After(end) {
			t.Fatalf("logs: %q, %v", out, err)
		}
	}
	if want := "none of systemd's"; strings.TrimSpace(out) != want {
		t.Errorf("the session's environment has %q, want %s", out, want)
	}
	if _, err := s.Must("down"); err != nil {
		t.Fatal(err)
	}
	n.hear("STOPPING=1", nil, s.Log)
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	if v, err := s.View("s"); err != nil || v.State != schemas.Running || v.Generation != 1 {
		t.Errorf("after a restart the session is %s, generation %d, %v", v.State, v.Generation, err)
	}
}
