package flood

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// foreign is a nats-server of its own, in a process that Diapause knows nothing of.
type foreign struct {
	address string
	log     *lines
}

// lines is what a process has printed.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// serve starts the server, which syncs each write as one should that keeps records.
func serve(t *testing.T, dir string) foreign {
	t.Helper()
	program, config := filepath.Join(dir, "nats-server"), filepath.Join(dir, "nats.conf")
	if err := local.Build(t.Context(), "e2e", "github.com/nats-io/nats-server/v2", program); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := foreign{address: l.Addr().String(), log: &lines{}}
	l.Close()
	text := fmt.Sprintf("listen: %s\njetstream { store_dir: %q, sync_interval: always }\n", f.address, filepath.Join(dir, "streams"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "-c", config)
	c.Stdout, c.Stderr, c.SysProcAttr = f.log, f.log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := threadtest.Start(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	await(t, "the NATS server is ready", func() bool { return f.log.has("Server is ready") })
	return f
}

// await waits for as long as it takes a server to write the thousands of messages that wait in it, each by
// itself, to a slow disk.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// A server of one's own that can't keep up drops messages and says so in its log alone: the scheduler notices all
// the same, and suspends no session whose use it may not have heard of. Without a flood it suspends as ever.
func TestForeignServerDrops(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	server := serve(t, t.TempDir())
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none", "--nats", "nats://"+server.address); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Log(), "the connection to NATS has no TLS") {
		t.Error("nothing is said of a server without TLS")
	}
	must(t, s, "run", "--name", "calm", "--idle", grace, "--", "sleep", "100000")
	suspended := func(name string) func() bool {
		return func() bool { v, err := s.View(name); return err == nil && v.State == schemas.Suspended }
	}
	await(t, "an idle session is suspended while the server keeps up", suspended("calm"))
	must(t, s, "run", "--name", "used", "--idle", "5s", "--", "sleep", "100000")
	stop := using(t, server.address, "used")
	gaps := func() uint64 {
		var all schemas.Stats
		if err := json.Unmarshal([]byte(must(t, s, "stats", "--json")), &all); err != nil {
			t.Fatal(err)
		}
		return all.Intake.Gaps
	}
	if n := gaps(); n > 0 {
		t.Errorf("%d gaps are counted of a server that keeps up", n)
	}
	f := begin(t, server.address)
	await(t, "the server drops messages", func() bool { return server.log.has("Dropping messages due to excessive stream ingest rate") })
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		v, err := s.View("used")
		if err != nil {
			continue // requests are slow beside a flood, too
		}
		if v.State != schemas.Running {
			t.Fatalf("session used is %s though it was used each second: %s", v.State, v.LastTransition.Reason)
		}
	}
	unknown, known := f.end()
	t.Logf("%d messages were sent", unknown+known)
	stop()
	if history := must(t, s, "history", "used"); strings.Contains(history, "suspend") {
		t.Errorf("it was suspended though it was used each second:\n%s", history)
	}
	await(t, "what was dropped is noticed", func() bool { return gaps() > 0 })
	await(t, "it is suspended when it isn't used any more", suspended("used"))
}

// using says each second that a session is used, and waits for no answer.
func using(t *testing.T, address, name string) (stop func()) {
	t.Helper()
	nc, err := nats.Connect("nats://" + address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-tick.C:
				_ = nc.Publish("diapause.v1.activity.default."+name+".heartbeat", nil)
			case <-done:
				return
			}
		}
	})
	return func() { close(done); all.Wait(); nc.Close() }
}
