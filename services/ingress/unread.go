package ingress

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// lingering is how long what a client still sends is dropped when it has its answer: a connection that is closed with
// something unread is reset, which may take the answer from the client.
const lingering = 500 * time.Millisecond

// Unread has a request be answered at once whose sender isn't known yet: the answer waits for no body, none of it is kept, and
// the connection ends with the answer. That is so unless admitted is called. The caller calls end when it has answered. HTTP/2 ends a stream by itself whose body isn't read.
func Unread(w http.ResponseWriter, r *http.Request) (admitted, end func()) {
	if r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody {
		return func() {}, func() {}
	}
	c := http.NewResponseController(w) // a test's recorder can't be controlled, and needn't
	_ = c.SetReadDeadline(time.Unix(1, 0))
	w.Header().Set("Connection", "close") // then net/http reads nothing before it answers
	in := false
	admitted = func() {
		in = true
		_ = c.SetReadDeadline(time.Time{})
		w.Header().Del("Connection")
	}
	end = func() {
		if !in {
			_ = c.SetReadDeadline(time.Now().Add(lingering))
		}
	}
	return admitted, end
}

// duplex lets a session answer while it reads. The caller calls end when it has answered.
func duplex(w http.ResponseWriter, r *http.Request) (end func()) {
	if r.ProtoMajor != 1 {
		return func() {}
	}
	c := http.NewResponseController(w)
	if c.EnableFullDuplex() != nil || r.Body == nil || r.Body == http.NoBody {
		return func() {}
	}
	b := &endless{ReadCloser: r.Body}
	r.Body = b
	return func() { b.drain(w, c) }
}

// drained is what is read of a body that a session didn't want, so that its connection can be used again. net/http reads as
// much, but panics at the next request of the connection if that comes to the end of the body with full duplex.
const drained = 256 << 10

// endless is a body of which it is known whether it was read to its end.
type endless struct {
	io.ReadCloser
	ended atomic.Bool
}

func (b *endless) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

// drain reads what is left, and has the connection end if that isn't the end of the body: with full duplex net/http goes
// on with it, and would take what is left for a request.
func (b *endless) drain(w http.ResponseWriter, c *http.ResponseController) {
	if b.ended.Load() {
		return
	}
	_ = c.Flush() // the answer waits for nothing
	_ = c.SetReadDeadline(time.Now().Add(lingering))
	if _, err := io.CopyN(io.Discard, b, drained); errors.Is(err, io.EOF) {
		_ = c.SetReadDeadline(time.Time{})
		return
	}
	// A body that is longer than its limit is all that net/http ends a connection for behind the headers.
	_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader("more")), 0).Read(make([]byte, 1))
}
