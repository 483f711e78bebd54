package gateway

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
)

// pieces is how much of an answer is sent at a time, in bytes.
const pieces = 64 << 10

// download is an answer that is sent as it comes. What goes wrong before its first byte is a problem; later the connection is cut.
type download struct {
	from  readings
	w     http.ResponseWriter
	c     *http.ResponseController
	ctx   context.Context
	me    schemas.WhoAmI
	media string
	file  string // what a browser calls it
	notes notes
	flush bool // each piece at once

	sent   bool      // the head of the answer
	looked time.Time // at the token
}

// serve answers a request of one who may, if it has no other parameters than these.
func (d *download) serve(r *http.Request, queries []string, answer func(d *download, v schemas.View, r *http.Request) error) error {
	me, err := d.from.mayRead(r.Context())
	if err != nil {
		return err
	}
	for name := range r.URL.Query() {
		if !slices.Contains(queries, name) {
			return schemas.UsageError("no parameter %.40q here", name)
		}
	}
	v, err := d.from.viewRead(r.Context(), OfSession{Session: r.PathValue("session")})
	if err != nil {
		return err
	}
	ctx, end, p := d.from.gate.streams.begin(r.Context(), me.Actor)
	if p != nil {
		return p
	}
	defer end()
	d.ctx, d.me, d.looked = ctx, me, time.Now()
	return answer(d, v, r)
}

// begin writes the head of the answer.
func (d *download) begin() {
	if d.sent {
		return
	}
	d.sent = true
	h := d.w.Header()
	h.Set("Content-Type", d.media)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'") // it has no origin
	if d.file != "" {
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": strings.ReplaceAll(d.file, "/", ".")}))
	}
	for _, note := range d.notes.taken() {
		h.Add("Warning", fmt.Sprintf("299 - %q", note))
	}
	d.w.WriteHeader(http.StatusOK)
}

// Write sends a piece. A client that doesn't take it is cut, and so is one whose token doesn't hold any more.
func (d *download) Write(p []byte) (int, error) {
	d.begin()
	if time.Since(d.looked) > d.from.gate.streams.keepAlive {
		if p := d.from.gate.still(d.ctx, d.me); p != nil {
			return 0, p
		}
		d.looked = time.Now()
	}
	_ = d.c.SetWriteDeadline(time.Now().Add(d.from.gate.streams.writeWait)) // a test's recorder has none
	n, err := d.w.Write(p)
	if err == nil && d.flush {
		err = d.c.Flush()
	}
	return n, err
}

// maxNotes is how many notes of a host are passed on, and maxNote how long one is.
const (
	maxNotes = 8
	maxNote  = 300
)

// notes are what a host says of a recording. Its methods may be called from several goroutines.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := strings.TrimPrefix(strings.TrimSpace(schemas.Shown(string(p[:min(len(p), maxNote)]))), "diapause: ")
	if len(n.all) < maxNotes {
		n.all = append(n.all, strings.ToValidUTF8(text, "\ufffd"))
	}
	return len(p), nil
}

// taken gives those that came so far.
func (n *notes) taken() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}
