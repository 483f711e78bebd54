package adopted

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// family is a program with a child on a pipe, a file that it reads on in, and a thread.
var family = []string{"python3", "-u", "-c", `
import subprocess, threading, time
child = subprocess.Popen(["sh", "-c", "while read -r n; do echo $((n + 1)); done"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
notes = open("notes", "w+")
i = 0
while True:
    child.stdin.write(str(i) + "\n")
    i = int(child.stdout.readline())
    notes.write(str(i) + "\n")
    notes.flush()
    print(i)
    time.sleep(0.01)`}

func TestFamily(t *testing.T) {
	b := newBench(t)
	pid := b.begins(family...)
	b.adopt(pid)
	below, err := Descendants(pid)
	if err != nil || len(below) != 1 {
		t.Fatalf("below it are %v, %v", below, err)
	}
	b.until("it is looked at", func() bool {
		o, err := b.d.Observe(b.ctx, "a")
		return err == nil && o.Processes == 2 && o.RSS > 0 && o.PID == pid
	})
	last := b.count()
	img := b.capture(2)
	b.stop(2)
	b.restore(3, img)
	if n := b.count(); n <= last {
		t.Errorf("it counts %d, and was at %d", n, last)
	}
	if again, err := Descendants(pid); err != nil || len(again) != 1 || again[0] != below[0] {
		t.Errorf("below it are %v, %v, and were %v", again, err, below)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "notes"))
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || lines[0] != "1" || len(lines) < last {
		t.Errorf("the file has %d lines, %v", len(lines), err)
	}
}

// A server on a port of the loopback answers after a resume; its port is free meanwhile.
func TestServer(t *testing.T) {
	b := newBench(t)
	pid := b.begins("python3", "-u", "-c", `
import http.server, os
class Counts(http.server.BaseHTTPRequestHandler):
    n = 0
    def do_GET(self):
        Counts.n += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(Counts.n).encode())
    def log_message(self, *a): pass
s = http.server.HTTPServer(("127.0.0.1", 0), Counts)
print(s.server_port)
s.serve_forever()`)
	get := func() string {
		r, err := http.Get("http://127.0.0.1:" + b.said())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	b.adopt(pid)
	if n := get(); n != "1" {
		t.Errorf("it answers %q", n)
	}
	if o, err := b.d.Observe(b.ctx, "a"); err != nil || len(o.Listens) != 1 {
		t.Errorf("it listens at %v, %v", o.Listens, err)
	}
	img := b.capture(2)
	b.stop(2)
	if _, err := http.Get("http://127.0.0.1:" + b.said()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("while it is suspended: %v", err)
	}
	b.restore(3, img)
	if n := get(); n != "2" {
		t.Errorf("it answers %q", n)
	}
}

// A capture that fails lets it run on; so does Thaw after one that passed.
func TestCaptureFails(t *testing.T) {
	b := newBench(t)
	b.adopt(b.begins(counter...))
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := b.d.Capture(over, fence(2), &drivertest.Image{}); err == nil {
		t.Error("it is captured after its context has ended")
	}
	b.count()
	b.capture(3)
	if _, err := b.d.Capture(b.ctx, fence(2), &drivertest.Image{}); !errors.Is(err, driver.ErrStale) {
		t.Errorf("a stale Capture says %v", err)
	}
	if err := b.d.Thaw(b.ctx, fence(3)); err != nil {
		t.Fatal(err)
	}
	b.count()
}

// It ends by itself: Exits and Inspect say how, also of what was restored.
func TestEnds(t *testing.T) {
	b := newBench(t)
	pid := b.begins("python3", "-u", "-c", `
import signal, sys
signal.signal(signal.SIGTERM, lambda *a: sys.exit(7))
print("ready")
while True:
    signal.pause()`)
	b.adopt(pid)
	img := b.capture(2)
	b.stop(2)
	b.restore(3, img)
	watched, cancel := context.WithCancel(b.ctx)
	exits := b.d.Exits(watched)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	i := <-exits
	cancel()
	for range exits {
		t.Error("another one ended")
	}
	if i.UID != "a" || i.State != driver.Exited || i.Lost || i.Exit == nil {
		t.Errorf("Exits gives %+v", i)
	}
	if i = b.state(driver.Exited); i.Exit == nil || i.PID != 0 || i.Exit.Code != 7 && i.Exit.Code != unknownEnd {
		t.Errorf("Inspect gives %+v, %+v", i, i.Exit)
	}
	if _, err := b.d.Capture(b.ctx, fence(4), &drivertest.Image{}); err == nil {
		t.Error("it is captured after its end")
	}
}

// A driver made after a crash knows what is here; what was on its way to become a session is left alone.
func TestRecover(t *testing.T) {
	b := newBench(t)
	pid := b.begins(counter...)
	b.adopt(pid)
	b.again()
	all, err := b.d.Recover(b.ctx)
	if err != nil || len(all) != 1 || all[0].PID != pid || all[0].State != driver.Running {
		t.Fatalf("Recover gives %+v, %v", all, err)
	}
	b.capture(2)
	b.again()
	if all, err = b.d.Recover(b.ctx); err != nil || len(all) != 1 || all[0].State != driver.Frozen {
		t.Fatalf("Recover gives %+v, %v", all, err)
	}
	n, err := b.d.notes.read("a")
	if err != nil {
		t.Fatal(err)
	}
	if n.Were, err = b.d.hierarchy.Where(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	n.Phase = joining // as if the crash had been before it was recorded
	if err := b.d.notes.set(n); err != nil {
		t.Fatal(err)
	}
	b.again()
	if all, err = b.d.Recover(b.ctx); err != nil || len(all) != 0 {
		t.Fatalf("Recover gives %+v, %v", all, err)
	}
	b.count()
	if now, err := b.d.hierarchy.Where(pid); err != nil || strings.Join(now, " ") != strings.Join(n.Were, " ") {
		t.Errorf("its cgroups are %v, %v, want %v", now, err, n.Were)
	}
}

// What can't be a session is refused, and left as it was.
func TestRefused(t *testing.T) {
	b := newBench(t)
	start := func(pid int, spec schemas.Spec, says string) {
		t.Helper()
		_, err := b.d.Start(b.ctx, fence(1), spec, func(context.Context) error {
			t.Error("it is recorded to run")
			return nil
		})
		if driver.KindOf(err) != driver.Refused || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("process %d: %v, want %q", pid, err, says)
		}
	}
	start(1, b.spec(1), "the machine's first process")
	start(2, b.spec(2), "the kernel")
	start(os.Getpid(), b.spec(os.Getpid()), "process of Diapause")
	pid := b.begins("sh", "-c", "echo ready; exec unshare --uts sleep 1000")
	b.until("it has a namespace of its own", func() bool {
		f, err := Look(pid)
		return err == nil && len(foreign(f.Host, f.Root)) > 0
	})
	start(pid, b.spec(pid), "namespaces of its own (uts)")
	spec := b.spec(pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { _, err := statOf(pid); return errors.Is(err, errGone) })
	start(pid, spec, "there is no process")
	end := b.takes(pid)
	start(pid, spec, "has ended before")
	end()
	start(0, schemas.Spec{}, "names no process")
}

// One that starts others without an end while it is adopted either becomes a session with all of them, or
// is refused and runs on: none is left frozen or half inside.
func TestForksMeanwhile(t *testing.T) {
	b := newBench(t)
	pid := b.begins("python3", "-u", "-c", `
import os, time
print("ready")
while True:
    if os.fork() == 0:
        time.sleep(0.05)
        os._exit(0)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
    time.sleep(0.001)`)
	b.adopt(pid)
	g, ok := b.d.group("a")
	if !ok {
		t.Fatal("it has no cgroup")
	}
	b.until("all of it is inside", func() bool {
		below, err := Descendants(pid)
		if err != nil {
			t.Fatal(err)
		}
		in, err := g.Pids()
		if err != nil {
			t.Fatal(err)
		}
		return len(in) > 0 && len(below) > 0
	})
	b.state(driver.Running)
}
