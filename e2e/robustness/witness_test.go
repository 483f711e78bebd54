package robustness_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// witness hears every step of the counters of real sessions, from whichever copy of them
// runs. The kernel says when each was sent: a step is an operation that took no time.
type witness struct {
	conn *net.UDPConn

	mu    sync.Mutex
	steps []countStep
	heard chan struct{} // closed and replaced with each step
}

// countStep is one number that a session counted to.
type countStep struct {
	run string // what made the session, which its record names as its program
	n   int
	at  time.Time
}

// witnessBuffer holds the steps that wait to be read.
const witnessBuffer = 4 << 20

func newWitness(t *testing.T) *witness {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	}
	if err == nil {
		err = conn.SetReadBuffer(witnessBuffer)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{conn: conn, heard: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.listen()
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return w
}

func (w *witness) listen() {
	b, more := make([]byte, 256), make([]byte, 256)
	for {
		n, size, _, _, err := w.conn.ReadMsgUDP(b, more)
		if err != nil {
			return
		}
		run, number, _ := strings.Cut(strings.TrimSpace(string(b[:n])), " ")
		count, err := strconv.Atoi(number)
		at, ok := stamped(more[:size])
		if err != nil || !ok {
			continue // it isn't from a session
		}
		w.mu.Lock()
		w.steps = append(w.steps, countStep{run, count, at})
		close(w.heard)
		w.heard = make(chan struct{})
		w.mu.Unlock()
	}
}

// stamped reads the kernel's time out of a control message.
func stamped(data []byte) (at time.Time, ok bool) {
	messages, err := unix.ParseSocketControlMessage(data)
	if err != nil {
		return time.Time{}, false
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:]))), true
		}
	}
	return time.Time{}, false
}

// spec is a session that counts, from 1 on, and says each number before it goes on.
func (w *witness) spec(run string) schemas.Spec {
	port := w.conn.LocalAddr().(*net.UDPAddr).Port
	return schemas.Spec{
		Command: []string{"bash", "-c", fmt.Sprintf("i=0; while :; do i=$((i+1)); echo %s $i >/dev/udp/127.0.0.1/%d; sleep 0.1; done", run, port)},
		Network: "host", // where the witness listens
		Env:     []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}
}

// next waits for the next step of a session.
func (w *witness) next(run string, wait time.Duration) (n int, ok bool) {
	w.mu.Lock()
	from := len(w.steps)
	w.mu.Unlock()
	for timeout := time.After(wait); ; {
		w.mu.Lock()
		for ; from < len(w.steps); from++ {
			if w.steps[from].run == run {
				n = w.steps[from].n
				w.mu.Unlock()
				return n, true
			}
		}
		heard := w.heard
		w.mu.Unlock()
		select {
		case <-heard:
		case <-timeout:
			return 0, false
		}
	}
}
