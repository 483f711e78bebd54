package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Hello is what a client says when it dials a session through its host: which
// session, and what it wants there. The connection then speaks the protocol of
// package shim.
type Hello struct {
	Name     string `json:"name"`
	Presence bool   `json:"presence"` // the connection counts as someone being there
	Input    bool   `json:"input"`    // what the client sends counts as input
}

// presenceTTL is how long a connection counts after its last renewal.
const presenceTTL = 15 * time.Second

// comingWait is how long a session may take to be there that is recorded to run.
const comingWait = 10 * time.Second

// flushed is how long the server may take to say that it knows the host.
const flushed = 30 * time.Second

// serveHost answers what clients ask of this host: to be connected to a
// session, and what it sees of its sessions.
// listening is called once it can be asked.
func (w *Worker) serveHost(ctx context.Context, listening func()) error {
	if w.NC == nil {
		listening()
		<-ctx.Done()
		return nil
	}
	base := schemas.SubjectHost + "." + string(w.Host)
	sub, err := w.NC.Subscribe(base+".observe", w.answerObserve)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", base, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // on a closing connection there is nothing to undo
	forget, err := w.NC.Subscribe(base+".forget", w.answerForget)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", base, err)
	}
	defer func() { _ = forget.Unsubscribe() }() // likewise
	l, err := tunnel.Listen(w.NC, base+".dial")
	if err != nil {
		return fmt.Errorf("listen on %s: %w", base, err)
	}
	defer l.Close()
	if err := w.NC.FlushTimeout(flushed); err != nil && ctx.Err() == nil {
		return fmt.Errorf("listen on %s: %w", base, err)
	}
	listening()
	var g errgroup.Group
	for {
		conn, err := l.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return g.Wait()
			}
			return fmt.Errorf("accept on %s: %w", base, err)
		}
		g.Go(func() error {
			w.serveConn(ctx, conn)
			return nil
		})
	}
}

func (w *Worker) answerObserve(msg *nats.Msg) {
	w.mu.Lock()
	out := make(map[schemas.UID]schemas.Observed, len(w.observed))
	for uid, s := range w.observed {
		out[uid] = schemas.Observed{PID: s.pid, RSSBytes: s.seen.RSS, Processes: s.seen.Processes, Status: s.seen.Status, Container: s.seen.Container}
	}
	w.mu.Unlock()
	if data, err := encode(out); err == nil {
		_ = msg.Respond(data) // whoever asked is gone, then
	}
}

func (w *Worker) serveConn(ctx context.Context, conn *tunnel.Conn) {
	defer conn.Close()
	var hello Hello
	if err := json.Unmarshal(conn.Hello(), &hello); err != nil {
		_ = conn.Abort("the request to connect can't be read: " + err.Error())
		return
	}
	if err := w.connect(ctx, conn, hello); err != nil {
		_ = attach.WriteError(conn, err.Error()) // whoever asked is gone, then
	}
}

func (w *Worker) connect(ctx context.Context, conn net.Conn, hello Hello) error {
	n, err := schemas.ParseName(hello.Name)
	if err != nil {
		return err
	}
	rec, err := w.Records.Get(ctx, n)
	if err != nil {
		return err
	}
	d, ok := w.Drivers[rec.Driver].(driver.Dialer)
	if !ok {
		return fmt.Errorf("sessions of driver %q can't be connected to", rec.Driver)
	}
	up, err := d.Dial(ctx, rec.UID)
	for wait := time.Now().Add(comingWait); errors.Is(err, driver.ErrNotHere); up, err = d.Dial(ctx, rec.UID) {
		if rec, err = w.Records.Get(ctx, n); err != nil {
			return err
		}
		coming := rec.State == schemas.Running || rec.State == schemas.Starting
		if !coming || rec.Host != w.Host || time.Now().After(wait) {
			return w.serveKept(ctx, conn, rec.SessionRecord)
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
	if hello.Presence {
		leave := w.present(ctx, n)
		defer leave()
	}
	return w.splice(ctx, n, conn, up, hello.Input)
}

// splice copies both ways until either side is done with the other.
func (w *Worker) splice(ctx context.Context, n schemas.Name, client, session net.Conn, input bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		session.Close()
	})
	defer stop()
	var g errgroup.Group
	g.Go(func() error {
		in := &source{Reader: client}
		if input {
			in.Reader = &heard{Reader: client, tell: func() { w.input(ctx, n) }, urgent: func() bool { return w.captures(n) }}
		}
		_, _ = io.Copy(session, in) // a session that takes no more has its last words to say
		closeWrite(session)
		if in.failed {
			cancel() // the client vanished
		}
		return nil
	})
	g.Go(func() error {
		_, _ = io.Copy(client, session) // its end, however it comes, ends the connection
		closeWrite(client)
		cancel()
		return nil
	})
	return g.Wait()
}

func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite() // the other side is gone, then
	}
}

// source remembers whether reading failed.
type source struct {
	io.Reader
	failed bool
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.failed = s.failed || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// heard tells of what is read, at most once a second, or whenever it is urgent and
// wasn't before: what came just before a suspend was decided doesn't undo it, so that
// nobody may be left out for having been heard then.
type heard struct {
	io.Reader
	tell   func()
	urgent func() bool
	last   time.Time
	told   bool // that it was urgent
	skip   bool // the first read is the request
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 && h.skip {
		urgent := h.urgent()
		if time.Since(h.last) > time.Second || urgent && !h.told {
			h.last = time.Now()
			h.tell()
		}
		h.told = urgent
	}
	h.skip = true
	return n, err
}

func (w *Worker) input(ctx context.Context, n schemas.Name) {
	if _, err := w.Bus.Activity(ctx, n, schemas.KindInput, "", schemas.Activity{By: "worker@" + string(w.Host)}); err != nil && ctx.Err() == nil {
		w.Log.Warn("input is not published", "session", n.String(), "err", err)
	}
}

// present keeps a lease alive until the returned function is called.
func (w *Worker) present(ctx context.Context, n schemas.Name) (leave func()) {
	key := "attach-" + nuid.Next()
	say := func(ctx context.Context, released bool) {
		a := schemas.Activity{TTL: schemas.Duration(presenceTTL), Released: released, Reason: "someone is attached", By: "worker@" + string(w.Host)}
		if _, err := w.Bus.Activity(ctx, n, schemas.KindPresence, key, a); err != nil && ctx.Err() == nil {
			w.Log.Warn("presence is not published", "session", n.String(), "err", err)
		}
	}
	say(ctx, false)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.NewTicker(presenceTTL / 3); ; {
			select {
			case <-tick.C:
				say(ctx, false)
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
		bye, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer done()
		say(bye, true)
	}
}

// serveKept answers for a session that isn't here now: its output is in its
// image, or was kept when it ended.
func (w *Worker) serveKept(ctx context.Context, conn net.Conn, r schemas.SessionRecord) error {
	req, err := attach.ReadRequest(conn)
	if err != nil {
		return err
	}
	if req.Op != attach.OpOutput {
		return fmt.Errorf("session %s is %s: nothing can be reached in it", r.Name(), r.State)
	}
	data, err := w.keptOutput(ctx, r)
	if err != nil {
		return err
	}
	return attach.Replay(conn, data)
}

func (w *Worker) keptOutput(ctx context.Context, r schemas.SessionRecord) ([]byte, error) {
	if r.State == schemas.Exited {
		in, err := w.Images.Get(ctx, outputName(r), 0, -1)
		if err != nil {
			return nil, fmt.Errorf("read the output of session %s: %w", r.Name(), err)
		}
		defer in.Close()
		sealed, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read the output of session %s: %w", r.Name(), err)
		}
		return seal.Unseal(string(sealed), w.openers()...)
	}
	if r.Head == nil {
		return nil, fmt.Errorf("session %s is %s and has no snapshot: its output is gone", r.Name(), r.State)
	}
	img, err := w.openImage(ctx, r, *r.Head)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	in, err := img.Open(attach.OutputEntry)
	if err != nil {
		return nil, fmt.Errorf("read the output of session %s: %w", r.Name(), err)
	}
	defer in.Close()
	return io.ReadAll(in)
}

// keepOutput stores what an ended session printed last, sealed.
func (w *Worker) keepOutput(ctx context.Context, d driver.Driver, r schemas.SessionRecord) error {
	dialer, ok := d.(driver.Dialer)
	if !ok {
		return nil
	}
	conn, err := dialer.Dial(ctx, r.UID)
	if err != nil {
		return err
	}
	out, err := attach.FetchOutput(conn)
	if err != nil {
		return err
	}
	to, err := w.sealers(ctx, r.Tenant)
	if err != nil {
		return err
	}
	sealed, err := seal.Seal(out, to...)
	if err != nil {
		return err
	}
	return w.Images.Put(ctx, outputName(r), bytes.NewReader([]byte(sealed)), int64(len(sealed)))
}

func outputName(r schemas.SessionRecord) string {
	return image.OutputName(r.Tenant, r.Lineage, r.UID, r.Generation)
}
