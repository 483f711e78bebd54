package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/direct"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
)

// requested is a client whose request was read: the session reads it from first.
type requested struct {
	*tunnel.Conn
	first io.Reader
}

// Read gives the request by itself, as the client sent it.
func (r requested) Read(p []byte) (int, error) {
	if r.first != nil {
		if n, err := r.first.Read(p); n > 0 || err != io.EOF {
			return n, err
		}
	}
	return r.Conn.Read(p)
}

// errLeft: the client has its answer by another connection, or is gone.
var errLeft = errors.New("the client left")

// offer offers a direct connection to a client that wants to forward one, if this host takes them and
// has the session. It gives what was read of a client that stays.
func (s *Server) offer(ctx context.Context, conn *tunnel.Conn, hello attach.Hello) (first io.Reader, err error) {
	if s.Direct == nil || !hello.Direct || !hello.Forward {
		return nil, nil
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r, err := attach.ReadRequest(conn)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := attach.WriteJSON(&b, attach.FrameRequest, r); err != nil {
		return nil, err
	}
	g := s.grant(ctx, hello, r)
	if g == nil {
		return &b, nil
	}
	o, err := s.Direct.Offer(*g)
	if err != nil { // there are too many: the way through NATS is always there
		s.Log.Debug("no direct connection", "session", hello.Name, "err", err)
		return &b, nil
	}
	if attach.WriteJSON(conn, attach.FrameOffer, o) != nil || conn.SetReadDeadline(time.Now().Add(direct.Lifetime)) != nil {
		return nil, errLeft
	}
	if kind, _, err := attach.ReadFrame(conn); err != nil || kind != attach.FrameStay {
		return nil, errLeft
	}
	return &b, conn.SetReadDeadline(time.Time{})
}

// grant gives what a client may reach that asked for it; nil if the session doesn't run here.
func (s *Server) grant(ctx context.Context, hello attach.Hello, r attach.Request) *direct.Grant {
	n, err := schemas.ParseName(hello.Name)
	if err != nil || r.Op != attach.OpForward || r.Port == 0 {
		return nil
	}
	rec, err := s.Records.Get(ctx, n)
	if err != nil || other(hello, rec) || rec.Host != s.Host || rec.State != schemas.Running {
		return nil
	}
	return &direct.Grant{Hello: hello, UID: rec.UID, Epoch: rec.Epoch, Port: r.Port}
}

// other reports whether the session isn't the one that a client means, but another of its name.
func other(hello attach.Hello, rec statekv.Versioned) bool {
	return hello.UID != "" && rec.UID != hello.UID
}

// granted reads a session's record. It fails if the session isn't the one that the client means, or not
// any more what the grant, if any, was for.
func (s *Server) granted(ctx context.Context, n schemas.Name, hello attach.Hello, g *direct.Grant) (statekv.Versioned, error) {
	rec, err := s.Records.Get(ctx, n)
	if err == nil && other(hello, rec) {
		err = fmt.Errorf("session %s was removed: another one has its name now", n)
	}
	if err == nil && g != nil && (rec.UID != g.UID || rec.Epoch != g.Epoch || rec.Host != s.Host) {
		err = fmt.Errorf("session %s was suspended or moved since: ask again", n)
	}
	return rec, err
}

// serveDirect connects a client that has come with a grant. The request is made of the grant: what the
// client sends is the content of its connection alone.
func (s *Server) serveDirect(ctx context.Context, conn *tunnel.Conn, g direct.Grant) {
	var b bytes.Buffer
	err := attach.WriteJSON(&b, attach.FrameRequest, attach.Request{Op: attach.OpForward, Port: g.Port})
	if err == nil {
		err = s.connect(ctx, requested{conn, &b}, g.Hello, &g)
	}
	if err != nil {
		_ = attach.WriteError(conn, err.Error()) // the client may be gone
	}
}
