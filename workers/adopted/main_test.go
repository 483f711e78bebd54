package adopted

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// What the test's own caller has left open isn't for the programs that it starts.
func TestMain(m *testing.M) {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		panic(err)
	}
	if os.Getenv(unified) != "" {
		if err := unify(); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// bench is a driver, and a program that others started.
type bench struct {
	*testing.T
	ctx  context.Context
	d    *Driver
	dir  string
	data string
}

var benches atomic.Int64

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	b := &bench{T: t, ctx: ctx, dir: t.TempDir(), data: t.TempDir()}
	instance := fmt.Sprintf("adopt-%d-%d", os.Getpid(), benches.Add(1))
	b.open(instance)
	t.Cleanup(func() {
		if err := b.d.Stop(context.Background(), fence(1000)); err != nil {
			t.Error(err)
		}
		if err := b.d.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) open(instance string) {
	b.Helper()
	d, err := New(Options{Data: b.data, Instance: instance})
	if err != nil {
		b.Fatal(err)
	}
	b.d = d
}

// again makes a driver of the same data, as after a crash.
func (b *bench) again() { b.open(b.d.options.Instance) }

func fence(epoch uint64) driver.Fence { return drivertest.Fence("a", epoch) }

// begins starts a program apart from this process, whose output goes to the file "out", and waits until
// that has something in it.
func (b *bench) begins(argv ...string) int {
	b.Helper()
	out, err := os.Create(filepath.Join(b.dir, "out"))
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	go func() { _ = cmd.Wait() }() // its pid is free when it has ended
	started, err := statOf(cmd.Process.Pid)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if alive(started.PID, started.Start) { // what was restored the driver ends
			_ = syscall.Kill(-started.PID, syscall.SIGKILL)
		}
	})
	b.until("the program says something", func() bool { return b.said() != "" })
	return cmd.Process.Pid
}

// said is the last line of what the program said.
func (b *bench) said() string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "out"))
	if err != nil {
		b.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// until looks again and again whether something is so: what the kernel and other programs do gives no signal.
func (b *bench) until(what string, is func() bool) {
	b.Helper()
	for !is() {
		select {
		case <-time.After(time.Millisecond):
		case <-b.ctx.Done():
			b.Fatalf("never: %s; it said %q", what, b.said())
		}
	}
}

// counter counts every 10 ms, a line each.
var counter = []string{"python3", "-u", "-c", `
import time
i = 0
while True:
    i += 1
    print(i)
    time.sleep(0.01)`}

// count gives a number that the counter has come to from now on.
func (b *bench) count() int {
	b.Helper()
	first, n := b.said(), 0
	b.until("it counts on", func() bool {
		now := b.said()
		var err error
		n, err = strconv.Atoi(now)
		return now != first && err == nil
	})
	return n
}

// spec names a process.
func (b *bench) spec(pid int) schemas.Spec {
	b.Helper()
	p, err := statOf(pid)
	if err != nil {
		b.Fatal(err)
	}
	boot, err := MachineBoot()
	if err != nil {
		b.Fatal(err)
	}
	var s schemas.Spec
	if err := s.SetOptions(Name, adoptspec.Options{PID: pid, Start: p.Start, Boot: boot}); err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bench) adopt(pid int) driver.Instance {
	b.Helper()
	i, err := b.d.Start(b.ctx, fence(1), b.spec(pid), drivertest.Begin)
	if err != nil {
		b.Fatal(err)
	}
	if i.PID != pid || i.State != driver.Running || i.Epoch != 1 {
		b.Errorf("Start gives %+v", i)
	}
	return i
}

func (b *bench) capture(epoch uint64) *drivertest.Image {
	b.Helper()
	img := &drivertest.Image{}
	c, err := b.d.Capture(b.ctx, fence(epoch), img)
	if err != nil {
		b.Fatal(err)
	}
	if c.Fingerprint.Base != b.d.options.Instance || !c.Fingerprint.KeepsMemory() {
		b.Errorf("the image needs %+v", c.Fingerprint)
	}
	return img
}

func (b *bench) stop(epoch uint64) {
	b.Helper()
	if err := b.d.Stop(b.ctx, fence(epoch)); err != nil {
		b.Fatal(err)
	}
	if _, err := b.d.Inspect(b.ctx, "a"); !errors.Is(err, driver.ErrNotHere) {
		b.Errorf("after Stop Inspect says %v", err)
	}
}

func (b *bench) restore(epoch uint64, img *drivertest.Image) driver.Instance {
	b.Helper()
	i, err := b.d.Restore(b.ctx, fence(epoch), schemas.Spec{}, img, schemas.BootResume, drivertest.Begin)
	if err != nil {
		b.Fatal(err)
	}
	return i
}

func (b *bench) state(want driver.State) driver.Instance {
	b.Helper()
	i, err := b.d.Inspect(b.ctx, "a")
	if err != nil || i.State != want {
		b.Fatalf("Inspect says %+v, %v; want %s", i, err, want)
	}
	return i
}

// taker is a process of the pid that it is told, until its input ends. Its parent waits for it then.
const taker = `
import ctypes, os, signal, struct, sys
tid = (ctypes.c_int * 1)(int(sys.argv[1]))
args = struct.pack("11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(tid), 1, 0)
child = ctypes.CDLL(None, use_errno=True).syscall(435, args, len(args)) # clone3
if child == 0:
    os.execvp("sleep", ["sleep", "1000"])
print(child, flush=True)
sys.stdin.read()
os.kill(child, signal.SIGKILL)
os.wait()`

// takes has a process of a pid, until what it returns is called.
func (b *bench) takes(pid int) (end func()) {
	b.Helper()
	cmd := exec.Command("python3", "-c", taker, strconv.Itoa(pid))
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if strings.TrimSpace(line) != strconv.Itoa(pid) {
		b.Fatalf("there is process %q, %v, not %d", line, err, pid)
	}
	b.until("it executes sleep", func() bool { p, err := statOf(pid); return err == nil && p.Comm == "sleep" })
	return func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	}
}
