package million

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
)

// Memory is what a NATS server's process holds for sessions that sleep, in bytes.
type Memory struct {
	Server
	Sessions  int
	Empty     int64 // before there was a session
	Filled    int64 // when the last record was written
	Quiet     int64 // after nothing was said for a while
	Live      int64 // of that what is in use: the heap after a collection
	Restarted int64 // when it has read all from its disk again
}

// Server is how a server keeps its memory.
type Server struct {
	GC    int  // percent, as GOGC
	Trims bool // it gives memory back when it rests, as `diapause up` does
}

func (s Server) String() string {
	if s.Trims {
		return fmt.Sprintf("%d, as in `up`", s.GC)
	}
	return fmt.Sprint(s.GC)
}

// Each is what one of these takes for a session.
func (m Memory) Each(of int64) float64 { return float64(of-m.Empty) / float64(m.Sessions) }

// heap is what a server says of its heap.
type heap struct {
	Live int64 `json:"live"`
}

// collected is the heap after a collection.
func collected() heap {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap{int64(m.HeapAlloc)}
}

// MeasureMemory fills a server with n sessions, and looks at its process.
func MeasureMemory(ctx context.Context, dir string, n int, s Server, quiet time.Duration) (m Memory, err error) {
	m = Memory{Sessions: n, Server: s}
	o := orders{Name: "memory", Dir: dir, GC: s.GC, Trims: s.Trims}
	m.Live, err = withServer(ctx, o, func(pid int, url string) (err error) {
		if m.Empty, err = resident(pid); err != nil {
			return err
		}
		if err := fillAt(ctx, url, n); err != nil {
			return err
		}
		if m.Filled, err = resident(pid); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(quiet):
		}
		m.Quiet, err = resident(pid)
		return err
	})
	if err != nil {
		return m, err
	}
	_, err = withServer(ctx, o, func(pid int, _ string) (err error) {
		m.Restarted, err = resident(pid)
		return err
	})
	return m, err
}

// withServer runs a server for as long as do takes, and gives what it has in use then.
func withServer(ctx context.Context, o orders, do func(pid int, url string) error) (live int64, err error) {
	c, err := start(ctx, "server", 0, o)
	if err != nil {
		return 0, err
	}
	var said started
	if err := c.hear(&said); err != nil {
		return 0, err
	}
	if err := do(c.cmd.Process.Pid, said.URL); err != nil {
		return 0, errors.Join(err, c.end())
	}
	_ = c.in.Close() // it says what it has in use, and ends
	var h heap
	if err := c.hear(&h); err != nil {
		return 0, err
	}
	return h.Live, c.end()
}

func fillAt(ctx context.Context, url string, n int) error {
	nc, err := nats.Connect(url, nats.ReconnectBufSize(64<<20))
	if err != nil {
		return fmt.Errorf("connect to a NATS server: %w", err)
	}
	defer nc.Close()
	return Fill(ctx, nc, n, 1)
}
