package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/direct"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Options is what a Server is made of. Without NC it serves nothing.
type Options struct {
	Host    schemas.HostID
	NC      *nats.Conn
	Records interface {
		Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error)
	}
	Bus interface {
		Activity(ctx context.Context, n schemas.Name, k schemas.Kind, key string, a schemas.Activity) (uint64, error)
	}
	Drivers map[schemas.DriverName]driver.Driver
	// Output gives what a session that isn't here printed last; entry is where its image has it.
	Output func(ctx context.Context, r schemas.SessionRecord, entry string) ([]byte, error)
	// Recorded gives what was recorded of a session's terminal since a moment, up to now if it runs here, without waking it.
	Recorded func(ctx context.Context, r schemas.SessionRecord, since time.Time) (Recording, error)
	// RecordedFrom gives what was recorded from a position in the output on.
	RecordedFrom func(ctx context.Context, r schemas.SessionRecord, from int64) (Recording, error)
	// Commands gives the commands of a session's terminal, up to now if it runs here, without waking it.
	Commands func(ctx context.Context, r schemas.SessionRecord) (Commands, error)
	// Spec gives how a session is run.
	Spec func(r schemas.SessionRecord) (schemas.Spec, error)
	// Shown gives what the terminal of a session showed that isn't here.
	Shown func(ctx context.Context, r schemas.SessionRecord) (attach.Screen, []byte, error)
	// Picture gives what the desktop of a session showed when it was suspended, a JPEG.
	Picture func(ctx context.Context, r schemas.SessionRecord) ([]byte, error)
	// Import takes in recordings that were made elsewhere; nil if this host records nothing.
	Import Importer
	// Searcher searches what was recorded of sessions, without waking them; nil if nothing is searched here.
	Searcher Searcher
	// Capturing reports whether a capture of a session is under way.
	Capturing func(n schemas.Name) bool
	// Answers are the other questions that the host answers, by the last token of their subject.
	// One that gives nil isn't answered.
	Answers map[string]func(ctx context.Context, question []byte) []byte
	Direct  *direct.Server // takes clients that don't come through NATS; nil if there is none
	Log     *slog.Logger
}

// Server connects clients to the sessions of one host.
type Server struct {
	Options
	watching watching
}

// comingWait is how long a session may take to be there that is recorded to run.
const comingWait = 10 * time.Second

// flushed is how long NATS may take to confirm the subscriptions.
const flushed = 30 * time.Second

// Serve answers clients until ctx ends, and returns when their connections have ended.
// It calls listening once it can be asked.
func (s *Server) Serve(ctx context.Context, listening func()) error {
	if s.NC == nil {
		listening()
		<-ctx.Done()
		return nil
	}
	base := schemas.SubjectHost + "." + string(s.Host)
	for question, answer := range s.Answers {
		sub, err := s.NC.Subscribe(base+"."+question, func(msg *nats.Msg) {
			if data := answer(ctx, msg.Data); data != nil {
				_ = msg.Respond(data) // the client may be gone
			}
		})
		if err != nil {
			return fmt.Errorf("listen on %s: %w", base, err)
		}
		defer func() { _ = sub.Unsubscribe() }() // on a closing connection there is nothing to undo
	}
	l, err := tunnel.Listen(s.NC, base+".dial")
	if err != nil {
		return fmt.Errorf("listen on %s: %w", base, err)
	}
	defer l.Close()
	if err := s.NC.FlushTimeout(flushed); err != nil && ctx.Err() == nil {
		return fmt.Errorf("listen on %s: %w", base, err)
	}
	listening()
	var g errgroup.Group
	if s.Direct != nil {
		g.Go(func() error {
			s.Direct.Serve(ctx, s.serveDirect)
			return nil
		})
	}
	for {
		conn, err := l.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return g.Wait()
			}
			return fmt.Errorf("accept on %s: %w", base, err)
		}
		g.Go(func() error {
			s.serveConn(ctx, conn)
			return nil
		})
	}
}

func (s *Server) serveConn(ctx context.Context, conn *tunnel.Conn) {
	defer conn.Close()
	var hello attach.Hello
	if err := json.Unmarshal(conn.Hello(), &hello); err != nil {
		_ = conn.Abort("the request to connect can't be read: " + err.Error())
		return
	}
	if hello.Import {
		if err := s.importing(ctx, conn, hello); err != nil {
			_ = attach.WriteError(conn, err.Error()) // the client may be gone
		}
		return
	}
	first, err := s.offer(ctx, conn, hello)
	if errors.Is(err, errLeft) {
		return
	}
	if err == nil {
		err = s.connect(ctx, requested{conn, first}, hello, nil)
	}
	if err != nil {
		_ = attach.WriteError(conn, err.Error()) // the client may be gone
	}
}

// connect connects a client to the session that it names; with a grant, to no other than that of the grant.
func (s *Server) connect(ctx context.Context, conn net.Conn, hello attach.Hello, grant *direct.Grant) error {
	if hello.Search {
		return s.search(ctx, conn, grant)
	}
	n, err := schemas.ParseName(hello.Name)
	if err != nil {
		return err
	}
	rec, err := s.granted(ctx, n, hello, grant)
	if err != nil {
		return err
	}
	d, ok := s.Drivers[rec.Driver].(driver.Dialer)
	if !ok {
		return fmt.Errorf("sessions of driver %q can't be connected to", rec.Driver)
	}
	conn, asked, err := s.asksFirst(ctx, conn, hello, grant)
	if err != nil {
		return err
	}
	kept := ofKept(asked)
	up, err := d.Dial(ctx, rec.UID)
	for wait := time.Now().Add(comingWait); errors.Is(err, driver.ErrNotHere); up, err = d.Dial(ctx, rec.UID) {
		if rec, err = s.granted(ctx, n, hello, grant); err != nil {
			return err
		}
		coming := rec.State == schemas.Running || rec.State == schemas.Starting
		if !coming || rec.Host != s.Host || time.Now().After(wait) {
			if kept != nil {
				return s.showAll(ctx, conn, d, rec.SessionRecord, *kept)
			}
			return s.serveKept(ctx, conn, rec.SessionRecord)
		}
		select { // what stopped it before its first instruction is about to be tried again
		case <-time.After(comingWait / 100):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("connect to session %s: %w", n, err)
	}
	defer up.Close()
	if kept != nil {
		up.Close() // it is asked again, after what was recorded
		return s.showAll(ctx, conn, d, rec.SessionRecord, *kept)
	}
	if hello.Presence {
		leave := s.present(ctx, n, hello.Forward)
		defer leave()
	}
	if asked != nil && asked.Op == attach.OpWatch {
		leave := s.watching.come(rec.UID, asked.Share)
		defer leave()
	}
	return s.splice(ctx, n, conn, up, hello.Input)
}

// serveKept answers for a session that isn't here now: its output is in its
// image, or was kept when it ended.
func (s *Server) serveKept(ctx context.Context, conn net.Conn, r schemas.SessionRecord) error {
	req, err := attach.ReadRequest(conn)
	if err != nil {
		return err
	}
	if req.Op != attach.OpOutput {
		return fmt.Errorf("session %s is %s: nothing can be reached in it", r.Name(), r.State)
	}
	data, err := s.Output(ctx, r, attach.OutputEntry)
	if err != nil {
		return err
	}
	return attach.Replay(conn, data, req.Tail)
}
