package shim

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/diapause/diapause/events/rfb"
)

// viewers are the VNC clients of a session's desktop that come by a port of its host, or by a forward: what they type and point counts as
// input.
type viewers struct {
	port uint16       // of the desktop; 0 if the session is none
	last atomic.Int64 // when the last input was, in nanoseconds since 1970; 0 if there was none
}

// input is when someone last typed, or moved the pointer; zero if no one did.
func (v *viewers) input() time.Time {
	if at := v.last.Load(); at > 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// reader gives what is to be told of all that a client says to a port; nil for ports that aren't the desktop's.
func (v *viewers) reader(port uint16) io.Writer {
	if v.port == 0 || port != v.port {
		return nil
	}
	return &viewer{of: v}
}

// viewer reads what one client says.
type viewer struct {
	of     *viewers
	filter rfb.Filter
	passed []byte
	lost   bool // it says what isn't understood: nothing more is known of it
}

// Write implements io.Writer, and never fails.
func (r *viewer) Write(p []byte) (int, error) {
	if r.lost {
		return len(p), nil
	}
	var used bool
	var err error
	r.passed, used, err = r.filter.Take(r.passed[:0], p)
	if used {
		r.of.last.Store(time.Now().UnixNano())
	}
	r.lost = err != nil
	return len(p), nil
}

// viewed is a connection to a desktop of which a reader is told what is written.
type viewed struct {
	*net.TCPConn
	reader io.Writer
}

func (c viewed) Write(p []byte) (int, error) {
	_, _ = c.reader.Write(p) // it never fails
	return c.TCPConn.Write(p)
}
