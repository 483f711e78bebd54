package gateway

import (
	"errors"
	"net"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// logs answers with the end of what a session has printed, which its host keeps also if nothing is recorded.
type logs struct{ readings }

func (g logs) operations(mux *http.ServeMux) {
	op := route{id: "logs", method: "GET", path: "/sessions/{session}/logs", tag: "recordings", summary: "Get the last of what it has printed, recorded or not"}.operation()
	text := &huma.Schema{Type: "string"}
	op.Parameters = []*huma.Param{
		{Name: "session", In: "path", Required: true, Schema: text, Description: "TENANT.ID, or ID for the tenant default"},
		{Name: "tail", In: "query", Schema: &huma.Schema{Type: "integer", Format: "int64"}, Description: "So many bytes of what was printed; all that its host keeps if it isn't given, which is the last MiB of a process tree"},
		{Name: "follow", In: "query", Schema: &huma.Schema{Type: "boolean"}, Description: "Go on with what it prints, until it ends or is suspended"},
	}
	g.downloading(mux, op, []string{plainText}, g.answer)
}

// answer gives both outputs, each piece as it comes.
func (g logs) answer(d *download, v schemas.View, r *http.Request) error {
	ask := attach.Request{Op: attach.OpOutput, Tail: -1}
	query := r.URL.Query()
	var err error
	if tail := query.Get("tail"); tail != "" {
		if ask.Tail, err = strconv.ParseInt(tail, 10, 64); err != nil || ask.Tail < 0 {
			return schemas.UsageError("tail %.40q: want how many bytes", tail)
		}
	}
	if follow := query.Get("follow"); follow != "" {
		if ask.Follow, err = strconv.ParseBool(follow); err != nil {
			return schemas.UsageError("follow: want true or false")
		}
	}
	d.media, d.flush = plainText, ask.Follow
	err = g.asHost(d.ctx, v, func(conn net.Conn) error {
		if ask.Follow { // its host is there, and it may print nothing for long
			d.begin()
			_ = d.c.Flush() // a test's recorder has none
		}
		_, err := attach.Do(conn, ask, attach.Streams{Stdout: d, Stderr: d})
		if ask.Follow && errors.Is(err, attach.ErrLost) { // it was suspended, or moved
			return nil
		}
		return err
	})
	if err == nil {
		d.begin() // of one that has printed nothing
	}
	return err
}
