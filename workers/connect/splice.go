package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/schemas"
)

// splice copies both ways until either side is done with the other.
func (s *Server) splice(ctx context.Context, n schemas.Name, client, session net.Conn, input bool) error {
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
			in.Reader = &heard{Reader: client, tell: func() { s.input(ctx, n) }, urgent: func() bool { return s.Capturing(n) }}
		}
		_, _ = carry(session, in) // a session that takes no more may still write
		closeWrite(session)
		if in.failed || gone(client) {
			cancel() // else a session that prints nothing would have it for good
		}
		return nil
	})
	g.Go(func() error {
		_, _ = carry(client, session) // when that ends, for any reason, the connection ends
		closeWrite(client)
		cancel()
		return nil
	})
	return g.Wait()
}

// piece is how much is copied at a time: a frame of a forwarded connection.
const piece = 64 << 10

// carry copies in pieces; neither end knows a better way.
func carry(to io.Writer, from io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, piece))
}

// gone reports whether a client that has sent its last reads no more, too.
func gone(client net.Conn) bool {
	c, ok := client.(interface{ Gone() bool })
	return ok && c.Gone()
}

func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite() // the other side may be gone
	}
}

// source remembers whether reading failed.
type source struct {
	io.Reader
	failed bool
}

func (r *source) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.failed = r.failed || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// heard reports that something is read, at most once a second, and at once when it has become
// urgent: input that came just before a suspend was decided doesn't undo it, so that what
// comes after must be reported again.
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
