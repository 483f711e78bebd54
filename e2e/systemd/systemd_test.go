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
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := stack.New(binary, filepath.Join(dir, "data"))
	s.Env = append(os.Environ(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=300000")
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	said := make(chan string, 1000)
	go func() {
		b := make([]byte, 1000)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			said <- string(b[:n])
		}
	}()
	hear := func(want string) {
		t.Helper()
		for end := time.After(within); ; {
			select {
			case got := <-said:
				if got == want {
					return
				}
			case <-end:
				t.Fatalf("it doesn't say %s:\n%s", want, s.Log())
			}
		}
	}
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	hear("READY=1")
	hear("WATCHDOG=1")
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
	hear("STOPPING=1")
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
