package flood

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
)

const (
	publishers = 4
	stranger   = 65534 // the user who floods
	grace      = "3s"
	lease      = 6 * time.Second
)

// How much there is of it: DIAPAUSE_LONG is the measure, which takes ten minutes.
func size() (leased int, long time.Duration) {
	if os.Getenv("DIAPAUSE_LONG") != "" {
		return 40, 10 * time.Minute
	}
	return 8, 15 * time.Second
}

func TestFlood(t *testing.T) {
	leased, long := size()
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	client, err := events.Connect(events.Options{URL: s.URL, By: "flood test"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	must(t, s, "run", "--name", "sleeper", "--idle", "never", "--", "sleep", "100000")
	for n := range leased {
		name := fmt.Sprintf("leased%d", n)
		must(t, s, "run", "--name", name, "--idle", grace, "--", "sleep", "100000")
		session, err := client.Session(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.Busy(t.Context(), "build", lease); err != nil {
			t.Fatal(err)
		}
	}
	f := begin(t, strings.TrimPrefix(s.URL, "nats://"))
	var wakes []time.Duration
	for end := time.Now().Add(long); time.Now().Before(end); {
		must(t, s, "suspend", "sleeper")
		began := time.Now()
		must(t, s, "ensure", "sleeper")
		wakes = append(wakes, time.Since(began))
	}
	sent := f.end()
	slices.Sort(wakes)
	t.Logf("%d publishers sent %d messages in %s; %d wakes took %s in the middle, %s at the 99th percentile",
		publishers, sent, long, len(wakes), wakes[len(wakes)/2], wakes[len(wakes)*99/100])
	if sent == 0 {
		t.Error("nothing was published")
	}
	for n := range leased {
		name := fmt.Sprintf("leased%d", n)
		v, err := s.View(name)
		if err != nil {
			t.Fatal(err)
		}
		if v.State != schemas.Running || strings.Contains(must(t, s, "history", name), "suspend") {
			t.Errorf("session %s is %s although it was in use: %s", name, v.State, v.LastTransition.Reason)
		}
	}
	bounds(t, s)
}

func must(t *testing.T, s *stack.Stack, args ...string) string {
	t.Helper()
	out, err := s.Must(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The bounds of what a flood may leave.
const (
	maxMemory = 200 << 20 // of the daemon, at any time
	maxLog    = 64 << 10
	maxStore  = 256 << 20
)

func bounds(t *testing.T, s *stack.Stack) {
	t.Helper()
	if log := s.Log(); strings.Contains(log, "Dropping messages") || strings.Count(log, "level=ERROR") > 0 {
		t.Errorf("the daemon complained:\n%.2000s", log)
	}
	warnings := 0
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, "level=WARN") {
			warnings += len(line)
		}
	}
	if warnings > maxLog {
		t.Errorf("the daemon logged %d bytes of warnings, more than %d", warnings, maxLog)
	}
	up, err := datadir.Locate(s.Data)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", up.PID))
	if err != nil {
		t.Fatal(err)
	}
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if peak == nil {
		t.Fatalf("the memory of the daemon isn't in %s", status)
	}
	kib, err := strconv.Atoi(string(peak[1]))
	if err != nil {
		t.Fatal(err)
	}
	stored := stored(t, filepath.Join(s.Data, "nats"))
	t.Logf("the daemon took %d MiB at most, the streams %d MiB", kib>>10, stored>>20)
	if kib<<10 > maxMemory || stored > maxStore {
		t.Errorf("the daemon took %d KiB, the streams %d bytes: more than %d and %d bytes", kib, stored, maxMemory, maxStore)
	}
}

// stored is how much the files below a directory take, in bytes.
func stored(t *testing.T, dir string) (sum int) {
	t.Helper()
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			sum += int(info.Size())
		}
		return nil // the server removes files while we look
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// flood is publishers at full speed.
type flood struct {
	all   []net.Conn
	sent  atomic.Int64 // messages that the kernel took
	ended sync.WaitGroup
}

func begin(t *testing.T, address string) *flood {
	t.Helper()
	f := &flood{}
	for n := range publishers {
		c := dialAs(t, stranger, address)
		f.all = append(f.all, c)
		f.ended.Go(func() { f.publish(c, n) })
		f.ended.Go(func() { drain(c) })
	}
	return f
}

// drain reads what a server says, so that it can go on.
func drain(c net.Conn) {
	for b := make([]byte, 4096); ; {
		if _, err := c.Read(b); err != nil {
			return
		}
	}
}

// publish writes messages until the connection is closed.
func (f *flood) publish(c net.Conn, who int) {
	if _, err := c.Write([]byte("CONNECT {\"verbose\":false,\"pedantic\":false}\r\n")); err != nil {
		return
	}
	const batch = 200
	for n := 0; ; n += batch {
		var b bytes.Buffer
		for i := range batch {
			fmt.Fprintf(&b, "PUB diapause.v1.activity.default.none-%d-%d.hold.x 0\r\n\r\n", who, n+i)
		}
		if _, err := c.Write(b.Bytes()); err != nil {
			return
		}
		f.sent.Add(batch)
	}
}

func (f *flood) end() int64 {
	for _, c := range f.all {
		c.Close()
	}
	f.ended.Wait()
	return f.sent.Load()
}

// dialAs connects as another user of this machine: a socket belongs to the user of the thread
// that opens it.
func dialAs(t *testing.T, uid int, address string) net.Conn {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", address)
	if _, backErr := unix.SetfsuidRetUid(0); backErr != nil {
		t.Fatal(backErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
