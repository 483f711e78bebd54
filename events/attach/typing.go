package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/diapause/diapause/schemas"
)

// Typing is what a person types to a session, over one connection after the other. When a
// connection ends, the input that the session hasn't confirmed is sent on the next one.
// No input is lost or taken twice, even if the session was suspended in between.
//
// NewTyping starts to read, Attach is called for each connection.
type Typing struct {
	name string

	mu      sync.Mutex
	owed    []byte // read, and not known to be taken
	taken   int64  // bytes before owed
	seen    int64  // position up to which output was passed on
	ended   bool   // the reader has ended
	again   bool   // Attach was called before
	untold  bool   // the session doesn't say what it has taken
	eof     bool   // the end of the reader is sent
	changed chan struct{}
}

// typedAhead bounds the length of owed, in bytes.
const typedAhead = 1 << 20

// NewTyping reads from r until it ends, in a goroutine of its own: r is usually a
// terminal, whose end can't be foreseen. name is a random one.
func NewTyping(name string, r io.Reader) *Typing {
	t := &Typing{name: name, changed: make(chan struct{})}
	go t.read(r)
	return t
}

func (t *Typing) read(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		t.mu.Lock()
		t.owed = append(t.owed, buf[:n]...)
		t.ended = err != nil
		t.signal()
		for !t.ended && len(t.owed) >= typedAhead {
			wait := t.changed
			t.mu.Unlock()
			<-wait
			t.mu.Lock()
		}
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// signal is called with mu held.
func (t *Typing) signal() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Owed returns how many bytes were typed that the session isn't known to have taken.
func (t *Typing) Owed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.owed)
}

// Taken returns how many bytes the session is known to have taken.
func (t *Typing) Taken() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken
}

// Settle waits until the reader has ended and the session has taken all, or ctx ends.
func (t *Typing) Settle(ctx context.Context) {
	for {
		t.mu.Lock()
		settled, wait := t.ended && len(t.owed) == 0, t.changed
		t.mu.Unlock()
		if settled {
			return
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return
		}
	}
}

// Attach attaches to a session's terminal over conn, as Do does, with t as the input,
// until the command or the connection ends. It closes conn.
func (t *Typing) Attach(conn net.Conn, r Request, s Streams) (schemas.ExitStatus, error) {
	defer conn.Close()
	t.mu.Lock()
	r.Op, r.Typist, r.From, r.Seen, r.Again = OpAttach, t.name, t.taken, t.seen, t.again
	t.again = true
	t.mu.Unlock()
	b, err := json.Marshal(r)
	if err != nil {
		return schemas.ExitStatus{}, fmt.Errorf("encode the request: %w", err)
	}
	w := &frameSender{conn: conn}
	if err := w.send(FrameRequest, b); err != nil {
		return schemas.ExitStatus{}, err
	}
	done := make(chan struct{})
	defer close(done)
	if s.Resized != nil {
		go w.sendSizes(s.Resized, done)
	}
	return t.receive(conn, s, w, done, func([]byte) {})
}

// receive carries one connection; started is called when the session has accepted it.
func (t *Typing) receive(conn net.Conn, s Streams, w *frameSender, done <-chan struct{}, started func(said []byte)) (schemas.ExitStatus, error) {
	var exit schemas.ExitStatus
	for {
		kind, payload, err := ReadFrame(conn)
		if err != nil {
			return exit, ErrLost
		}
		switch kind {
		case FrameStarted:
			started(payload)
			err = t.begin(payload)
			go t.send(w, done)
		case FrameTaken:
			var at Taken
			if err = json.Unmarshal(payload, &at); err == nil {
				err = t.take(at.Taken)
			}
		case FrameStdout, FrameStderr:
			t.mu.Lock()
			t.seen += int64(len(payload))
			t.mu.Unlock()
			to := s.Stdout
			if kind == FrameStderr {
				to = s.Stderr
			}
			err = write(to, payload)
		case FrameExit:
			err = json.Unmarshal(payload, &exit)
			return exit, err
		case FrameError:
			return exit, RemoteError(payload)
		case FrameGone:
			return exit, ErrGone
		}
		if err != nil {
			return exit, fmt.Errorf("pass on output: %w", err)
		}
	}
}

// begin reads how much of the input the session has. A shim that an older version started
// never says it: its payload is empty.
func (t *Typing) begin(said []byte) error {
	var at Taken
	t.mu.Lock()
	t.untold, at.Taken, at.At = len(said) == 0, t.taken, t.seen
	untold := t.untold
	t.mu.Unlock()
	if !untold {
		if err := json.Unmarshal(said, &at); err != nil {
			return err
		}
	}
	t.mu.Lock()
	t.seen = at.At
	t.mu.Unlock()
	return t.take(at.Taken)
}

// sent counts what was sent as taken if the session doesn't say what it has taken.
func (t *Typing) sent(upTo int64) {
	t.mu.Lock()
	untold := t.untold
	t.mu.Unlock()
	if untold {
		_ = t.take(upTo) // of what was owed, so it can't be too much
	}
}

// take removes from owed what the session has taken.
func (t *Typing) take(taken int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := taken - t.taken
	if n < 0 || n > int64(len(t.owed)) {
		return errors.New("the session counts input that wasn't typed")
	}
	t.owed, t.taken = t.owed[n:], taken
	t.signal()
	return nil
}

// send sends what is owed over one connection.
func (t *Typing) send(w *frameSender, done <-chan struct{}) {
	t.mu.Lock()
	at := t.taken
	t.mu.Unlock()
	for told := false; ; {
		t.mu.Lock()
		if at < t.taken {
			t.mu.Unlock()
			return // a later connection has gone on from here
		}
		b := append([]byte(nil), t.owed[at-t.taken:min(int64(len(t.owed)), at-t.taken+MaxFrame/2)]...)
		wait, end := t.changed, t.eof && t.ended
		t.mu.Unlock()
		if len(b) == 0 && end && !told {
			told = true
			if w.send(FrameStdinEOF, nil) != nil {
				return
			}
			continue
		}
		if len(b) > 0 {
			if w.send(FrameStdin, b) != nil {
				return // as receive sees too
			}
			at += int64(len(b))
			t.sent(at)
			continue
		}
		select {
		case <-wait:
		case <-done:
			return
		}
	}
}
