package shim

import (
	"bytes"
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/schemas"
)

// BenchmarkEcho is how long it takes until a client that is attached has the echo of a byte that it sends, with and without a recording. It
// prints the 50th and the 99th percentile.
func BenchmarkEcho(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		c := newCommand(backlog.New(attach.OutputKept), false)
		c.shown = newShown(c, attach.Size{Rows: 24, Cols: 80})
		echoes(b, c)
	})
	b.Run("recorded", func(b *testing.B) {
		r := newRecorderBench(b)
		r.input = true // the most that there is to do
		echoes(b, r.of)
	})
}

// echoes measures the echoes of a command's terminal.
func echoes(b *testing.B, c *command) {
	b.Helper()
	if err := c.useTerminal(testTerminal(b)); err != nil {
		b.Fatal(err)
	}
	var pumps sync.WaitGroup
	c.run(&pumps)
	v := &clients{name: schemas.Name{Tenant: "acme", Session: "web"}, gate: newGate(), tree: &processes{main: c}}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		b.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "client")
		if ends[i], err = net.FileConn(f); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
	here, served := ends[0], make(chan error, 1)
	go func() {
		served <- v.attach(context.Background(), ends[1], attach.Request{Op: attach.OpAttach, Stdin: true, Rows: 24, Cols: 80})
	}()
	if kind, _, err := attach.ReadFrame(here); err != nil || kind != attach.FrameStarted {
		b.Fatalf("it begins with %q, %v", kind, err)
	}
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		key := []byte{'a' + byte(n%26)}
		if n%64 == 63 {
			key[0] = '\n' // a line has an end
		}
		at := time.Now()
		if err := attach.WriteFrame(here, attach.FrameStdin, key); err != nil {
			b.Fatal(err)
		}
		for {
			kind, payload, err := attach.ReadFrame(here)
			if err != nil {
				b.Fatal(err)
			}
			if kind == attach.FrameStdout && bytes.ContainsAny(payload, string(key)) {
				break
			}
		}
		took = append(took, time.Since(at))
		if key[0] == '\n' {
			discardLine(b, c.tty)
		}
	}
	here.Close()
	<-served
	c.tty.master.Close()
	pumps.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "µs-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "µs-p99")
}

// discardLine reads what was typed, as the program in a terminal does.
func discardLine(b *testing.B, of *terminal) {
	b.Helper()
	line := make([]byte, 256)
	if _, err := unix.Read(of.slaveFD, line); err != nil {
		b.Fatal(err)
	}
}
