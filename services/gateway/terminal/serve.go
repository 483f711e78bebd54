package terminal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// Session is the session whose terminal it is, for one who may use it.
type Session interface {
	// View looks at it.
	View(ctx context.Context) (schemas.View, error)
	// Wake has it run, and returns when it does.
	Wake(ctx context.Context) (schemas.View, error)
	// Dial connects to it where a view says that it is.
	Dial(ctx context.Context, v schemas.View) (net.Conn, error)
	// News gives a step of an operation each time that there is one, and nil when the session changed. Some may
	// be missed. It ends with ctx.
	News(ctx context.Context) (<-chan *schemas.Progress, error)
}

// Options is what a socket needs.
type Options struct {
	Session Session
	// Caller is whose token it is: clients of others have other names.
	Caller string
	// Problem is an error as a client is told it, and whether there is no use in another try.
	Problem func(error) (problem any, final bool)
	// Still gives an error when the caller may no longer use it. It is asked every Tick.
	Still func(context.Context) error
	Tick  time.Duration
	// WriteWait is how long a client may take for a message; a slower one is cut.
	WriteWait time.Duration
	// Deadline sets that of the connection below the socket.
	Deadline func(time.Time) error
	// Watch is set of one who may only watch, by a share.
	Watch *Watch
}

// Watch is a terminal of which the client sees what it shows, and no more: it types nothing, changes no size, wakes nothing,
// counts as no use, and is told neither the host nor how much was typed.
type Watch struct {
	Share string // its id
	// Last gives what the terminal of a session that sleeps showed last.
	Last func(ctx context.Context, v schemas.View) (attach.Screen, []byte, error)
}

// The bounds of what a client sends.
const (
	firstWait   = 10 * time.Second
	closeWait   = 10 * time.Second // for the client's part of the end
	maxMessage  = 64 << 10
	perSecond   = 500 // messages
	atOnce      = 2000
	maxClient   = 64 // characters of its name
	lookAgain   = 5 * time.Second
	tryAgain    = 250 * time.Millisecond
	triesToJoin = 40
)

// socket is one WebSocket.
type socket struct {
	Options
	ws   *websocket.Conn
	hint asked // the first message
	keys *keyboard
	flow *flow
	wake chan struct{}

	mu      sync.Mutex
	size    attach.Size
	resized chan struct{} // closed at the next change

	// Of the goroutine that writes output.
	uid     schemas.UID
	run     uint64
	host    schemas.HostID
	at      int64 // the client has the output up to here
	painted bool  // it was shown what a session that sleeps showed last, or that can't be read, in this state
	state   schemas.State
}

// Serve carries a terminal until the session or the client ends, or ctx.
func Serve(ctx context.Context, ws *websocket.Conn, o Options) {
	ws.SetReadLimit(maxMessage)
	s := &socket{Options: o, ws: ws, wake: make(chan struct{}, 1), resized: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	// Reading ends with the socket alone: a context that ends would close it before the client is told why.
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer parts.Wait()
	defer stop()
	defer func() { _ = ws.CloseNow() }() // ends what listens
	defer cancel(nil)
	began := make(chan error, 1)
	parts.Go(func() {
		err := s.first(listening)
		if began <- err; err == nil {
			cancel(s.listen(listening))
		}
	})
	var err error
	select {
	case err = <-began:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		parts.Go(func() { cancel(s.check(ctx)) })
		err = s.stay(ctx)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
	}
	s.close(err)
}

// errOver says that all was told to the client.
var errOver = errors.New("the session has ended")

// errWatch answers a client with a share that does more than watch.
var errWatch = errors.New("a share is for watching alone")

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
		_ = s.say(context.Background(), Message{Type: typeError, Problem: problem}) // the client may be gone
	}
	// Closing takes what the client still sends, which may be a message without an end.
	_ = s.Deadline(time.Now().Add(closeWait)) // closed, then
	_ = s.ws.Close(code, why)
}

// first reads the first message.
func (s *socket) first(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	kind, b, err := s.ws.Read(ctx)
	if err != nil {
		return err
	}
	a := &s.hint
	if kind != websocket.MessageText || json.Unmarshal(b, a) != nil || a.Type != typeAttach {
		return misuse{errors.New("the first message isn't of the type attach")}
	}
	if len(a.Client) == 0 || len(a.Client) > maxClient {
		return misuse{fmt.Errorf("attach: client has 1 to %d characters", maxClient)}
	}
	if a.At < 0 || a.Taken < 0 {
		return misuse{errors.New("attach: at and taken aren't negative")}
	}
	s.keys, s.flow, s.size = newKeyboard(a.Taken), newFlow(a.Flow), a.Size
	if s.Watch != nil {
		// Positions are a client's own word. With one from before the share it would get what was printed then.
		s.hint, s.keys, s.size = asked{}, newKeyboard(0), attach.Size{}
		return nil
	}
	if !a.Asleep {
		s.wake <- struct{}{}
	}
	return nil
}

// typist is the client's name in the session.
func (s *socket) typist() string {
	sum := sha256.Sum256([]byte(s.Caller + "\x00" + s.hint.Client))
	return "w" + hex.EncodeToString(sum[:16])
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
		if kind == websocket.MessageBinary {
			err = s.typed(b)
		} else {
			err = s.told(b)
		}
		if err != nil {
			return misuse{err}
		}
	}
}

// typed takes input: its position, and the bytes.
func (s *socket) typed(b []byte) error {
	if s.Watch != nil {
		return errWatch
	}
	if len(b) < positionSize {
		return errors.New("a binary message begins with a position of 8 bytes")
	}
	return s.keys.put(int64(binary.BigEndian.Uint64(b)), b[positionSize:])
}

// told takes another message.
func (s *socket) told(b []byte) error {
	var a asked
	if err := json.Unmarshal(b, &a); err != nil {
		return errors.New("a text message is JSON")
	}
	if s.Watch != nil && a.Type != typeShown {
		return errWatch
	}
	switch a.Type {
	case typeResize:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.size = a.Size
		close(s.resized)
		s.resized = make(chan struct{})
	case typeShown:
		s.flow.showed(a.Bytes)
	case typeWake:
		s.waken()
	default:
		return fmt.Errorf("no message of the type %.20q is known", a.Type)
	}
	return nil
}

func (s *socket) waken() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
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
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.WriteWait) // as write
		err := s.ws.Ping(within)
		cancel()
		if err != nil {
			return fmt.Errorf("the client doesn't answer: %w", net.ErrClosed)
		}
	}
}

// say sends a message that isn't output.
func (s *socket) say(ctx context.Context, m Message) error {
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

// output sends output, or a screen, after which the client has all up to a position.
func (s *socket) output(ctx context.Context, kind byte, at int64, parts ...[]byte) error {
	b := binaryMessage(kind, at, parts...)
	if err := s.flow.room(ctx, len(b)); err != nil {
		return err
	}
	s.at = at
	return s.write(ctx, websocket.MessageBinary, b)
}
