package desktop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/rfb"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway/terminal"
)

// Protocol is the subprotocol of the WebSocket.
const Protocol = "diapause.desktop.v1"

// Port is where a desktop is in its session, if its record doesn't say.
const Port = 5900

// Use is told what a client uses the session for.
type Use interface {
	// Present says that someone looks at it, until leave is called.
	Present() (leave func())
	// Input says that someone typed, or moved the pointer.
	Input()
}

// Options is what a socket needs.
type Options struct {
	// Session is dialled at the port of its desktop.
	Session terminal.Session
	Watch   bool // the client only watches
	Wake    bool // it has the session run
	Use     Use
	// Problem is an error as a client is told it, and whether there is no use in another try.
	Problem func(error) (problem any, final bool)
	// Still gives an error when the caller may no longer use it. It is asked every Tick.
	Still func(context.Context) error
	Tick  time.Duration
	// WriteWait is how long a client may take for a message; a slower one is cut.
	WriteWait time.Duration
	// Deadline sets that of the connection below the socket.
	Deadline func(time.Time) error
}

// The bounds of a socket.
const (
	maxMessage = 256 << 10
	perSecond  = 500 // messages
	atOnce     = 2000
	piece      = 32 << 10 // of what the session sends
	closeWait  = 10 * time.Second
	lookAgain  = 5 * time.Second
	tryAgain   = 250 * time.Millisecond
	tries      = 20 // to connect to a session that runs
)

// The types of text messages for a client, beside the state: terminal.Message has them.
const (
	typeAttached = "attached"
	typeStage    = "stage"
	typeError    = "error"
)

// typeVisible is that of a client's text messages.
const typeVisible = "visible"

// said is a text message of a client.
type said struct {
	Type    string `json:"type"`
	Visible bool   `json:"visible"`
}

// socket is one WebSocket.
type socket struct {
	Options
	ws     *websocket.Conn
	filter rfb.Filter

	mu      sync.Mutex // guards what is below
	up      net.Conn   // to the desktop; nil before it is there
	visible bool
	leave   func() // nil while no one is present
	began   bool   // the desktop has been there
}

// Serve carries a desktop until one side ends, or ctx. The socket is good for one connection to the desktop: a client comes
// back when the session runs again.
func Serve(ctx context.Context, ws *websocket.Conn, o Options) {
	ws.SetReadLimit(maxMessage)
	s := &socket{Options: o, ws: ws, filter: rfb.Filter{Watch: o.Watch}, visible: true}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Reading ends with the socket alone: a context that ends would close it before the client is told why.
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	defer func() { _ = ws.CloseNow() }() // ends what listens
	defer cancel(nil)
	parts.Go(func() { cancel(s.listen(listening)) })
	parts.Go(func() { cancel(s.check(ctx)) })
	err := s.carry(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	s.close(err)
}

// errOver says that the client was told all.
var errOver = errors.New("the desktop has ended")

// misuse is an error of the client.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// close tells the client why the socket ends.
func (s *socket) close(err error) {
	code, why := websocket.StatusNormalClosure, ""
	var wrong misuse
	switch {
	case errors.Is(err, errOver):
	case websocket.CloseStatus(err) != -1, errors.Is(err, net.ErrClosed):
		return // the client has ended it
	case errors.As(err, &wrong):
		code, why = websocket.StatusPolicyViolation, wrong.Error()
	case errors.Is(err, context.Canceled):
		code, why = websocket.StatusGoingAway, "the gateway stops"
	default:
		code, why = websocket.StatusInternalError, "see the error before"
		problem, _ := s.Problem(err)
		_ = s.say(context.Background(), terminal.Message{Type: typeError, Problem: problem}) // the client may be gone
	}
	_ = s.Deadline(time.Now().Add(closeWait)) // closed, then
	_ = s.ws.Close(code, why)
}

// carry connects to the desktop, and passes on what it sends.
func (s *socket) carry(ctx context.Context) error {
	up, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer up.Close()
	defer context.AfterFunc(ctx, func() { up.Close() })()
	if err := s.say(ctx, terminal.Message{Type: typeAttached}); err != nil {
		return err
	}
	buf := make([]byte, piece)
	n, err := io.ReadFull(up, buf[:rfb.VersionSize])
	if err != nil {
		return s.ended(ctx)
	}
	if err := rfb.CheckServer(buf[:n]); err != nil {
		return schemas.StateError(schemas.ReasonWrongState, "%v", err)
	}
	s.attached(up)
	defer s.detached()
	for ; ; n, err = up.Read(buf) {
		if n > 0 {
			if err := s.write(ctx, websocket.MessageBinary, buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return s.ended(ctx)
		}
	}
}

// ended tells the client how the session is whose desktop has ended the connection.
func (s *socket) ended(ctx context.Context) error {
	v, err := s.Session.View(ctx)
	if err != nil {
		return err
	}
	if err := s.state(ctx, v); err != nil {
		return err
	}
	return errOver
}

func (s *socket) state(ctx context.Context, v schemas.View) error {
	return s.say(ctx, terminal.Message{Type: terminal.TypeState, State: v.State, Reason: v.LastTransition.Reason})
}

// connect connects to the desktop of a session that runs, or is about to, or that the client has asked to wake.
func (s *socket) connect(ctx context.Context) (net.Conn, error) {
	news, err := s.Session.News(ctx)
	if err != nil {
		return nil, err
	}
	for try := 1; ; {
		v, err := s.Session.View(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case v.State == schemas.Running:
			up, err := s.Session.Dial(ctx, v)
			if err == nil || try == tries || !passes(err) {
				return up, err
			}
			try++
			pause(ctx, news, tryAgain)
		case s.Wake && (v.State == schemas.Suspended || v.State == schemas.Suspending):
			if err := s.state(ctx, v); err != nil {
				return nil, err
			}
			if err := s.waken(ctx, news); err != nil {
				return nil, err
			}
		case v.State == schemas.Resuming || v.State == schemas.Starting:
			if err := s.state(ctx, v); err != nil {
				return nil, err
			}
			pause(ctx, news, lookAgain)
		default:
			if err := s.state(ctx, v); err != nil {
				return nil, err
			}
			return nil, errOver
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// passes reports whether another try to connect may do: the server may start just now, or the session may have moved.
func passes(err error) bool {
	var refused attach.RefusedError
	var remote attach.RemoteError
	return errors.Is(err, attach.ErrLost) || errors.As(err, &refused) || errors.As(err, &remote)
}

// waken has the session run, once, and tells the client how that goes on.
func (s *socket) waken(ctx context.Context, news <-chan *schemas.Progress) error {
	s.Wake = false // a suspend that comes after that isn't undone
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := s.Session.Wake(ctx)
		done <- err
	}()
	for stage := ""; ; {
		select {
		case err := <-done:
			return err
		case p := <-news:
			if p == nil || p.Stage == "" || p.Stage == stage && p.Bytes == 0 {
				continue
			}
			stage = p.Stage
			if err := s.say(ctx, terminal.Message{Type: typeStage, Stage: p.Stage, Bytes: p.Bytes, Of: p.Of}); err != nil {
				cancel()
				<-done
				return err
			}
		}
	}
}

// pause waits for news, but not for long.
func pause(ctx context.Context, news <-chan *schemas.Progress, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-t.C:
	case <-news:
	case <-ctx.Done():
	}
}

// attached has the client's bytes go to the desktop, and its looking count.
func (s *socket) attached(up net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up, s.began = up, true
	s.look()
}

func (s *socket) detached() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up, s.visible = nil, false
	s.look()
}

// look begins or ends the presence of a person; mu is held.
func (s *socket) look() {
	looks := s.up != nil && s.visible
	switch {
	case looks && s.leave == nil:
		s.leave = s.Use.Present()
	case !looks && s.leave != nil:
		s.leave()
		s.leave = nil
	}
}

// listen takes what the client sends.
func (s *socket) listen(ctx context.Context) error {
	limit := rate.NewLimiter(perSecond, atOnce)
	for {
		kind, b, err := s.ws.Read(ctx)
		if err != nil {
			return err
		}
		if err := limit.Wait(ctx); err != nil {
			return err
		}
		if kind == websocket.MessageText {
			err = s.told(b)
		} else {
			err = s.took(b)
		}
		if err != nil {
			return err
		}
	}
}

func (s *socket) told(b []byte) error {
	var m said
	if json.Unmarshal(b, &m) != nil || m.Type != typeVisible {
		return misuse{errors.New(`a text message is {"type":"visible","visible":true}`)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.visible = m.Visible
	s.look()
	return nil
}

// took passes on bytes of RFB.
func (s *socket) took(b []byte) error {
	s.mu.Lock()
	up, began := s.up, s.began
	s.mu.Unlock()
	if !began {
		return misuse{errors.New("the desktop speaks first")}
	}
	out, used, err := s.filter.Take(nil, b)
	if err != nil {
		return misuse{err}
	}
	if up == nil || len(out) == 0 {
		return nil // it is no use: that would resume the session whose suspend has ended the connection
	}
	if used {
		s.Use.Input()
	}
	_, _ = up.Write(out) // what reads from it learns why it can't
	return nil
}

// check looks at intervals whether the client is there, and may go on.
func (s *socket) check(ctx context.Context) error {
	tick := time.NewTicker(s.Tick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.Still(ctx); err != nil {
			return err
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.WriteWait)
		err := s.ws.Ping(within)
		cancel()
		if err != nil {
			return fmt.Errorf("the client doesn't answer: %w", net.ErrClosed)
		}
	}
}

// say sends a message that isn't of RFB.
func (s *socket) say(ctx context.Context, m terminal.Message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return s.write(ctx, websocket.MessageText, b)
}

// write sends one message. One that was started goes on when ctx ends: the socket would be closed in its midst, and the client not
// told why.
func (s *socket) write(ctx context.Context, kind websocket.MessageType, b []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.WriteWait)
	defer cancel()
	return s.ws.Write(ctx, kind, b)
}
