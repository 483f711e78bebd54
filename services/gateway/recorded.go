package gateway

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/export"
)

// The operations on what was recorded of a session's terminal. They ask the session's host, which reads it without waking the
// session, and pass on what comes: no answer is in memory as a whole.

// Commands is a part of the commands of a terminal.
type Commands struct {
	Commands []schemas.TypedCommand `json:"commands" doc:"The last one first"`
	Next     int64                  `json:"next,omitempty" doc:"The before of the next page; none if this is the last"`
	Missing  []string               `json:"missing,omitempty" doc:"What isn't there that was, a sentence each"`
}

// nonzero is the exit of all commands that failed.
const nonzero = "nonzero"

type commandsIn struct {
	OfSession
	Linked
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Before int64  `query:"before" minimum:"1" doc:"Those with a lower number: the next of the page before"`
	Exit   string `query:"exit" pattern:"^(nonzero|-?[0-9]{1,10})$" doc:"Those that ended with this status, or with any but 0: nonzero"`
}

// has reports whether a command is one of those asked for.
func (in *commandsIn) has(c schemas.TypedCommand) bool {
	switch {
	case in.Before > 0 && c.Number >= in.Before:
		return false
	case in.Exit == "":
		return true
	case c.Exit == nil:
		return false
	case in.Exit == nonzero:
		return *c.Exit != 0
	}
	return strconv.Itoa(*c.Exit) == in.Exit
}

// readings answers what is asked of recordings.
type readings struct{ gate *Gateway }

// operations are the operations on recordings.
func (g readings) operations(mux *http.ServeMux) {
	const tag, one = "recordings", "/sessions/{session}"
	op := route{id: "commands", method: "GET", path: one + "/commands", tag: tag, summary: "List the commands that were typed in its recorded terminal; this is never activity"}.operation()
	op.Extensions = nil // it is no verb
	op.Description = contentRight
	huma.Register(g.gate.doc, op, func(ctx context.Context, in *commandsIn) (*answer[Commands], error) {
		out, err := g.commands(ctx, in)
		if err != nil {
			return nil, problem(err)
		}
		page := &answer[Commands]{Body: out}
		if out.Next > 0 {
			page.Link = in.next("before", strconv.FormatInt(out.Next, 10))
		}
		return page, nil
	})

	text := &huma.Schema{Type: "string"}
	of := &huma.Param{Name: "session", In: "path", Required: true, Schema: text, Description: "TENANT.ID, or ID for the tenant default"}
	op = route{id: "output", method: "GET", path: one + "/commands/{command}/output", tag: tag, summary: "Get what one of those commands printed"}.operation()
	op.Parameters = []*huma.Param{
		of,
		{Name: "command", In: "path", Required: true, Schema: &huma.Schema{Type: "integer", Format: "int64"}, Description: "Its number"},
		{Name: "raw", In: "query", Schema: &huma.Schema{Type: "boolean"}, Description: "As it was printed, with all escape sequences"},
	}
	g.downloading(mux, op, []string{plainText, rawOutput}, g.output)

	op = route{id: "recording", method: "GET", path: one + "/recording", tag: tag, summary: "Get all that was recorded of its terminal"}.operation()
	forms := &huma.Schema{Type: "string", Default: export.Asciicast}
	var types []string
	for _, form := range export.Forms {
		forms.Enum, types = append(forms.Enum, form), append(types, export.MediaType(form))
	}
	op.Parameters = []*huma.Param{
		of,
		{Name: "format", In: "query", Schema: forms, Description: "asciicast (version 3), text or html for all lines as they read on a terminal, or jsonl for all events with their times"},
		{Name: "since", In: "query", Schema: text, Description: "What was recorded in the last so long, as 2h"},
		{Name: "from", In: "query", Schema: text, Description: "Begin at a moment: a time of RFC 3339, or so long after the beginning, as 90s. jsonl begins with an event from, of that time, and then with what it takes to know what was shown: a frame (k) before that, or the beginning"},
	}
	g.downloading(mux, op, types, g.recording)

	op = route{id: "desktopPicture", method: "GET", path: one + "/desktop/picture", tag: tag, summary: "Get a picture of what the desktop of a session that sleeps showed last"}.operation()
	op.Parameters = []*huma.Param{of}
	g.downloading(mux, op, []string{pictureType}, g.picture)
}

// contentRight says in the document who may ask.
const contentRight = "The token has the role owner or operator: what a terminal showed is a right of its own. It resumes nothing, and counts as no use."

// The media types of outputs, and of pictures.
const (
	plainText   = "text/plain; charset=utf-8"
	rawOutput   = "application/octet-stream"
	pictureType = "image/jpeg"
)

// downloading has an operation in the document, and answers it.
func (g readings) downloading(mux *http.ServeMux, op huma.Operation, types []string, h func(d *download, v schemas.View, r *http.Request) error) {
	op.Extensions = nil // it is no verb
	op.Description = contentRight
	content := map[string]*huma.MediaType{}
	for _, t := range types {
		t, _, _ = strings.Cut(t, ";")
		content[t] = &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
	}
	op.Responses = map[string]*huma.Response{
		"200": {Description: "OK. What it can't give of what was recorded is said in headers Warning", Content: content},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{
			problemType: {Schema: g.gate.doc.OpenAPI().Components.Schemas.Schema(typeOf[Problem](), true, "")},
		}},
	}
	var queries []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			queries = append(queries, p.Name)
		}
	}
	g.gate.doc.OpenAPI().AddOperation(&op)
	mux.HandleFunc("GET "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		d := &download{from: g, w: w, c: http.NewResponseController(w)}
		err := d.serve(r, queries, h)
		switch {
		case err == nil:
		case d.sent: // its client sees that this isn't all
			g.gate.log.Info("a recording was cut", "path", shownPath(r.URL.Path), "err", err)
			panic(http.ErrAbortHandler)
		default:
			problem(err).write(w)
		}
	})
}

// mayRead refuses those who may not see what terminals showed.
func (g readings) mayRead(ctx context.Context) (me schemas.WhoAmI, err error) {
	if err := g.gate.ask(ctx, "whoami", schemas.Request{}, &me); err != nil {
		return me, err
	}
	if me.Role != schemas.TokenOwner && me.Role != schemas.TokenOperator {
		return me, refusal(http.StatusForbidden, fmt.Sprintf("a token with the role %s doesn't see what terminals show", me.Role), "one with the role owner does")
	}
	return me, nil
}

// viewRead gives a session of which something was recorded.
func (g readings) viewRead(ctx context.Context, of OfSession) (v schemas.View, err error) {
	if err := g.gate.ask(ctx, "show", schemas.Request{Name: of.name()}, &v); err != nil {
		return v, err
	}
	if v.Host == "" {
		return v, schemas.StateError(schemas.ReasonWrongState, "session %s has come to no host: nothing was recorded", v.Name)
	}
	return v, nil
}

// asHost carries fn out on a connection to a session's host, which counts as nothing.
func (g readings) asHost(ctx context.Context, v schemas.View, fn func(net.Conn) error) error {
	conn, err := dialSession(ctx, g.gate.nc, v, attach.Hello{Name: v.Name, UID: v.UID})
	if err == nil {
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		err = fn(conn)
		stop()
	}
	var none attach.NoCommandError
	var remote attach.RemoteError
	switch {
	case ctx.Err() != nil:
		return cmp.Or(context.Cause(ctx), err)
	case errors.Is(err, attach.ErrLost):
		return schemas.FailedError(schemas.ReasonHostGone, "host %s of session %s doesn't answer", v.Host, v.Name).WithHint("ask again")
	case errors.Is(err, attach.ErrOlder):
		return schemas.FailedError(schemas.ReasonFailed, "host %s: %v", v.Host, err).WithHint("install this version there, and start its worker again")
	case errors.As(err, &none):
		return refusal(http.StatusNotFound, schemas.Shown(string(none.RemoteError)), "list its commands")
	case errors.As(err, &remote):
		return schemas.StateError(schemas.ReasonUnreadable, "%s", schemas.Shown(string(remote)))
	}
	return err
}

// commands lists the commands of a session.
func (g readings) commands(ctx context.Context, in *commandsIn) (out Commands, err error) {
	if _, err := g.mayRead(ctx); err != nil {
		return out, err
	}
	v, err := g.viewRead(ctx, in.OfSession)
	if err != nil {
		return out, err
	}
	out.Commands = []schemas.TypedCommand{}
	var notes notes
	answer, to := io.Pipe()
	fetched := make(chan error, 1)
	go func() {
		err := g.asHost(ctx, v, func(conn net.Conn) error {
			return attach.FetchKept(conn, attach.History{Commands: -1}, attach.Streams{Stdout: to, Stderr: &notes}, func(schemas.TypedCommand) {})
		})
		to.CloseWithError(cmp.Or(err, io.EOF))
		fetched <- err
	}()
	err = out.read(answer, in)
	answer.CloseWithError(errRead)
	if fetchErr := <-fetched; fetchErr != nil && !errors.Is(fetchErr, errRead) {
		return out, fetchErr
	}
	out.Missing = notes.taken()
	return out, err
}

// errRead: no more of an answer is wanted.
var errRead = errors.New("enough is read")

// read reads the commands as a host sends them, up to a page.
func (c *Commands) read(from io.Reader, in *commandsIn) error {
	for dec := json.NewDecoder(from); ; {
		var command schemas.TypedCommand
		if err := dec.Decode(&command); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		if !in.has(command) {
			continue
		}
		if n := len(c.Commands); n == in.Limit {
			c.Next = c.Commands[n-1].Number
			return nil
		}
		c.Commands = append(c.Commands, command)
	}
}

// output answers with the output of a command.
func (g readings) output(d *download, v schemas.View, r *http.Request) error {
	number, err := strconv.ParseInt(r.PathValue("command"), 10, 64)
	if err != nil || number < 1 {
		return refusal(http.StatusBadRequest, fmt.Sprintf("%.40q is no number of a command", r.PathValue("command")), "")
	}
	raw, err := strconv.ParseBool(cmp.Or(r.URL.Query().Get("raw"), "false"))
	if err != nil {
		return schemas.UsageError("raw: want true or false")
	}
	d.media = plainText
	out := bufio.NewWriterSize(d, pieces)
	if raw {
		d.media = rawOutput
		err = g.printed(d, v, number, out)
	} else {
		err = g.printedText(d, v, number, out)
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		d.begin() // of one that printed nothing
	}
	return err
}

// printed writes what a command printed, as it was.
func (g readings) printed(d *download, v schemas.View, command int64, to io.Writer) error {
	return g.asHost(d.ctx, v, func(conn net.Conn) error {
		return attach.FetchKept(conn, attach.History{Command: command}, attach.Streams{Stdout: to, Stderr: &d.notes}, func(schemas.TypedCommand) {})
	})
}

// printedText writes it as text.
func (g readings) printedText(d *download, v schemas.View, command int64, to io.Writer) error {
	text := &shownText{to: to}
	if err := g.printed(d, v, command, text); err != nil {
		return err
	}
	return text.end()
}

// shownText writes what was printed as text.
type shownText struct {
	to   io.Writer
	text screen.Text
}

func (t *shownText) Write(p []byte) (int, error) {
	if _, err := t.to.Write(t.text.Write(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end writes the last line, which gets an end.
func (t *shownText) end() error {
	last := t.text.End()
	if len(last) == 0 {
		return nil
	}
	_, err := t.to.Write(append(last, '\n'))
	return err
}

// picture answers with what a desktop showed when its session was suspended.
func (g readings) picture(d *download, v schemas.View, _ *http.Request) error {
	if v.State != schemas.Suspended {
		return schemas.StateError(schemas.ReasonWrongState, "session %s is %s: there is a picture of one that sleeps", v.Name, v.State).WithHint("connect to its desktop")
	}
	var jpeg []byte
	err := g.asHost(d.ctx, v, func(conn net.Conn) (err error) {
		jpeg, err = attach.FetchPicture(conn)
		return err
	})
	if err != nil {
		return err
	}
	d.media = pictureType
	_, err = d.Write(jpeg)
	return err
}

// recording answers with a recording.
func (g readings) recording(d *download, v schemas.View, r *http.Request) error {
	form := cmp.Or(r.URL.Query().Get("format"), export.Asciicast)
	if !slices.Contains(export.Forms, form) {
		return schemas.UsageError("format %.40q: want %s", form, strings.Join(export.Forms, ", "))
	}
	h := attach.History{Events: true, Framed: export.Framed(form)}
	if since := r.URL.Query().Get("since"); since != "" {
		ago, err := schemas.ParseDuration(since)
		if err != nil || ago <= 0 {
			return schemas.UsageError("since %.40q: want how long ago, as 2h", since)
		}
		h.Since = time.Now().Add(-ago)
	}
	if from := r.URL.Query().Get("from"); from != "" {
		if err := beginAt(&h, from); err != nil {
			return err
		}
	}
	d.media, d.file = export.MediaType(form), v.Name+"."+extension(form)
	out := bufio.NewWriterSize(d, pieces)
	to := export.New(form, v.Name, out)
	err := g.eachEvent(d, v, h, to)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		d.begin()
	}
	return err
}

// eachEvent writes a recording.
func (g readings) eachEvent(d *download, v schemas.View, h attach.History, to export.Writer) error {
	events, from := io.Pipe()
	fetched := make(chan error, 1)
	go func() {
		err := g.asHost(d.ctx, v, func(conn net.Conn) error {
			_, err := attach.Do(conn, attach.Request{Op: attach.OpOutput, Tail: -1, History: &h}, attach.Streams{Stdout: from, Stderr: &d.notes})
			return err
		})
		from.CloseWithError(cmp.Or(err, io.EOF))
		fetched <- err
	}()
	err := export.Each(events, fromMoment(h, to.Event))
	events.CloseWithError(errRead)
	if fetchErr := <-fetched; fetchErr != nil && !errors.Is(fetchErr, errRead) {
		return fetchErr
	}
	if err != nil {
		return err
	}
	return to.End()
}

// beginAt has a recording begin at a moment.
func beginAt(h *attach.History, from string) error {
	if !h.Since.IsZero() {
		return schemas.UsageError("since and from: want one of them")
	}
	h.Framed = true
	if after, err := schemas.ParseDuration(from); err == nil && after >= 0 {
		h.After = after
		return nil
	}
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return schemas.UsageError("from %.40q: want a time such as 2026-05-04T15:30:00Z, or 90s", from)
	}
	h.Since = at
	return nil
}

// fromMoment fails before the first event of a recording that should begin at a moment, if its host doesn't know of that.
func fromMoment(h attach.History, give func(attach.Event) error) func(attach.Event) error {
	asked := h.Framed && (h.After > 0 || !h.Since.IsZero())
	return func(e attach.Event) error {
		if asked && e.Code != attach.CodeFrom {
			return schemas.FailedError(schemas.ReasonFailed, "the session's host doesn't know from").WithHint("install this version there, and start its worker again")
		}
		asked = false
		return give(e)
	}
}

// extension is that of a file of a form.
func extension(form string) string {
	switch form {
	case export.Asciicast:
		return "cast"
	case export.Text:
		return "txt"
	}
	return form
}
