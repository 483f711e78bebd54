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
	stranger   = 65534 // the user who floods with names that there aren't
	neighbour  = 65533 // the user who floods with names of sessions
	leased     = 40
	targets    = 2 // sessions that the neighbour names
	grace      = "3s"
	lease      = 30 * time.Second
)

// length is how long it floods: ten minutes with DIAPAUSE_LONG.
func length() time.Duration {
	if os.Getenv("DIAPAUSE_LONG") != "" {
		return 10 * time.Minute
	}
	return time.Minute
}

// wakeLimit is what a wake beside a flood may take, at the 99th percentile. It depends on the machine: make test doesn't ask.
const wakeLimit = time.Second

func TestFlood(t *testing.T) {
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	must(t, s, "run", "--name", "sleeper", "--idle", "never", "--", "sleep", "100000")
	for n := range targets {
		must(t, s, "run", "--name", target(n), "--idle", "never", "--", "sleep", "100000")
	}
	keepAwake(t, s)
	f := begin(t, strings.TrimPrefix(s.URL, "nats://"))
	var wakes []time.Duration
	for end := time.Now().Add(length()); time.Now().Before(end); {
		must(t, s, "suspend", "sleeper")
		began := time.Now()
		must(t, s, "ensure", "sleeper")
		wakes = append(wakes, time.Since(began))
	}
	unknown, known := f.end()
	slices.Sort(wakes)
	late := wakes[len(wakes)*99/100]
	t.Logf("%d publishers sent %d messages of no session and %d of sessions in %s; %d wakes took %s in the middle, %s at the 99th percentile",
		publishers, unknown, known, length(), len(wakes), wakes[len(wakes)/2], late)
	if unknown == 0 || known == 0 {
		t.Error("nothing was published")
	}
	if os.Getenv("DIAPAUSE_LONG") != "" && late > wakeLimit {
		t.Errorf("wakes take %s at the 99th percentile, more than %s", late, wakeLimit)
	}
	for n := range leased {
		name := inUse(n)
		v, err := s.View(name)
		if err != nil {
			t.Fatal(err)
		}
		if v.State != schemas.Running || strings.Contains(must(t, s, "history", name), "suspend") {
			t.Errorf("session %s is %s although it was in use: %s", name, v.State, v.LastTransition.Reason)
		}
	}
	await(t, "a session of their class without a lease is suspended", func() bool {
		v, err := s.View("unused")
		return err == nil && v.State == schemas.Suspended
	})
	bounds(t, s)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.Up("--docker", "none"); err != nil {
		t.Fatal(err)
	}
	t.Logf("the next start took %s", time.Since(began))
}

func inUse(n int) string  { return fmt.Sprintf("leased%d", n) }
func target(n int) string { return fmt.Sprintf("target%d", n) }

// keepAwake starts sessions that leases alone keep awake, half of them of a client with credentials, and one that none does.
// They may be idle for the grace once all have their leases.
func keepAwake(t *testing.T, s *stack.Stack) {
	t.Helper()
	must(t, s, "policy", "set", "class:automation", "grace=1h", "awake=0s")
	var clients [2]*events.Client
	for i, o := range []events.Options{{URL: s.URL}, {URL: s.Secure, Creds: filepath.Join(s.Data, "creds", "client.nk")}} {
		o.By = "flood test"
		client, err := events.Connect(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		clients[i] = client
	}
	must(t, s, "run", "--name", "unused", "--class", "automation", "--", "sleep", "100000")
	for n := range leased {
		must(t, s, "run", "--name", inUse(n), "--class", "automation", "--", "sleep", "100000")
		session, err := clients[n%len(clients)].Session(inUse(n))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.Busy(t.Context(), "build", lease); err != nil {
			t.Fatal(err)
		}
	}
	for n := range leased {
		await(t, "the lease of session "+inUse(n)+" is known", func() bool { return strings.Contains(must(t, s, "explain", inUse(n)), "busy.build") })
	}
	must(t, s, "policy", "set", "class:automation", "grace="+grace)
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
	all            []net.Conn
	unknown, known atomic.Int64 // messages that the kernel took
	ended          sync.WaitGroup
}

// begin has half of the publishers name no session, each message another, without content, and half name sessions, each
// message another lease of a KiB.
func begin(t *testing.T, address string) *flood {
	t.Helper()
	f := &flood{}
	text := `{"reason":"` + strings.Repeat("f", schemas.MaxUncredentialed-len(`{"reason":""}`)) + `"}`
	for who := range publishers {
		uid, sent, batch := stranger, &f.unknown, 200
		say := func(b *bytes.Buffer, n int) {
			fmt.Fprintf(b, "PUB diapause.v1.activity.default.none-%d-%d.hold.x 0\r\n\r\n", who, n)
		}
		if who%2 == 1 {
			uid, sent, batch = neighbour, &f.known, 1
			say = func(b *bytes.Buffer, n int) {
				fmt.Fprintf(b, "PUB diapause.v1.activity.default.%s.hold.k%d-%d %d\r\n%s\r\n", target(n%targets), who, n, len(text), text)
			}
		}
		c := dialAs(t, uid, address)
		f.all = append(f.all, c)
		f.ended.Go(func() { publish(c, sent, batch, say) })
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

// publish writes messages, so many at a time, until the connection is closed.
func publish(c net.Conn, sent *atomic.Int64, batch int, say func(b *bytes.Buffer, n int)) {
	if _, err := c.Write([]byte("CONNECT {\"verbose\":false,\"pedantic\":false}\r\n")); err != nil {
		return
	}
	for n := 0; ; n += batch {
		var b bytes.Buffer
		for i := range batch {
			say(&b, n+i)
		}
		if _, err := c.Write(b.Bytes()); err != nil {
			return
		}
		sent.Add(int64(batch))
	}
}

func (f *flood) end() (unknown, known int64) {
	for _, c := range f.all {
		c.Close()
	}
	f.ended.Wait()
	return f.unknown.Load(), f.known.Load()
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
