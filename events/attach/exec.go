package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/diapause/diapause/schemas"
)

// ErrGone says that a command to connect to again isn't in the session: that was started again
// or rolled back meanwhile, or the command ended long ago.
var ErrGone = errors.New("the command is no longer in the session")

// Exec is one more command in a session, over one connection after the other: the session
// may be suspended and resumed in between, on another host too.
//
// NewExec prepares it, Run is called for each connection.
type Exec struct {
	request Request
	streams Streams
	typing  *Typing
	begin   sync.Once
	known   atomic.Bool // the session knows the command by its name

	// Again is called when the command goes on over a later connection, with how many bytes of
	// its output are lost: more was written than is kept.
	Again func(lost int64)
}

// NewExec prepares a command. name is a random one.
func NewExec(name string, r Request, s Streams) *Exec {
	r.Op, r.Typist = OpExec, name
	return &Exec{request: r, streams: s, typing: &Typing{name: name, eof: true, changed: make(chan struct{})}, Again: func(int64) {}}
}

// Stays reports whether Run can be called again after ErrLost.
func (e *Exec) Stays() bool { return e.known.Load() }

// Owed returns how many bytes of input were read that the command isn't known to have got.
func (e *Exec) Owed() int { return e.typing.Owed() }

// Run runs the command, or connects to it again, until it or the connection ends. It closes conn.
func (e *Exec) Run(conn net.Conn) (schemas.ExitStatus, error) {
	defer conn.Close()
	var exit schemas.ExitStatus
	t, r := e.typing, e.request
	if e.known.Load() {
		t.mu.Lock()
		r.Op, r.From, r.Seen = OpRejoin, t.taken, t.seen
		t.mu.Unlock()
	}
	b, err := json.Marshal(r)
	if err != nil {
		return exit, fmt.Errorf("encode the request: %w", err)
	}
	w := &frameSender{conn: conn}
	if err := w.send(FrameRequest, b); err != nil {
		return exit, ErrLost
	}
	done := make(chan struct{})
	defer close(done)
	if e.streams.Resized != nil {
		go w.sendSizes(e.streams.Resized, done)
	}
	s := e.streams
	exit, err = t.receive(conn, s, w, done, func(said []byte) {
		t.mu.Lock()
		before := t.seen
		t.mu.Unlock()
		if e.known.Load() {
			var at Taken
			if json.Unmarshal(said, &at) == nil {
				e.Again(at.At - before)
			}
		}
		e.known.Store(len(said) > 0)
		e.begin.Do(func() {
			if s.Stdin == nil {
				s.Stdin = eof{}
			}
			go t.read(s.Stdin)
		})
	})
	if err == nil && e.known.Load() {
		_ = w.send(FrameHeard, nil) // or it is kept for a while
	}
	return exit, err
}

// eof is no input.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
