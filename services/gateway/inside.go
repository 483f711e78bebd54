package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/schemas"
)

// insides answers what is asked of the inside of a session, over a connection to its host, for owners and operators.
type insides struct{ readings }

// maxOutput is how much of each output of a command is answered, in bytes.
const maxOutput = 1 << 20

// ExecBody is a command that is to be run in a session.
type ExecBody struct {
	Command []string `json:"command" minItems:"1" doc:"The program and its arguments"`
	Env     []string `json:"env,omitempty" doc:"K=V; in place of the session's own environment"`
	Dir     string   `json:"dir,omitempty" doc:"Working directory inside the session"`
	User    string   `json:"user,omitempty" doc:"USER[:GROUP], each by its number or its name inside the session"`
	Stdin   string   `json:"stdin,omitempty"`
}

// Executed is how a command ended, and what it printed.
type Executed struct {
	Exit   int    `json:"exit"`
	Signal int    `json:"signal,omitempty" doc:"What ended it"`
	Reason string `json:"reason,omitempty" doc:"out of memory and the like"`
	Stdout string `json:"stdout" doc:"The first MiB; bytes that are no UTF-8 are replaced"`
	Stderr string `json:"stderr" doc:"Likewise"`
	Cut    bool   `json:"cut,omitempty" doc:"There was more of an output"`
}

type execIn struct {
	OfSession
	Waiting
	Body ExecBody
}

type waitIn struct {
	OfSession
	Waiting
	State []string `query:"state" doc:"Which to wait for, separated by commas; exited and failed if it isn't given" enum:"starting,running,suspending,suspended,resuming,exited,failed"`
}

// operations are those on the inside of sessions.
func (g insides) operations(mux *http.ServeMux) {
	const tag, one = "inside", "/sessions/{session}"
	doc := g.gate.doc
	text := &huma.Schema{Type: "string"}
	of := &huma.Param{Name: "session", In: "path", Required: true, Schema: text, Description: "TENANT.ID, or ID for the tenant default"}

	op := route{id: "wait", method: "GET", path: one + "/wait", tag: tag, summary: "Wait until it has ended, or is in a state; this is never activity"}.operation()
	op.Extensions = nil // it is no verb
	huma.Register(doc, op, g.wait)

	op = route{id: "exec", method: "POST", path: one + "/exec", tag: tag, summary: "Run a command in it, resumed if need be, and answer with what it printed"}.operation()
	op.Extensions = nil
	op.Description = "The token has the role owner or operator. After `wait` the answer is 504, and the command may run on."
	huma.Register(doc, op, g.exec)

	op = route{id: "screen", method: "GET", path: one + "/screen", tag: tag, summary: "Get what its terminal shows, or showed last"}.operation()
	op.Parameters = []*huma.Param{of, {Name: "format", In: "query", Schema: &huma.Schema{Type: "string", Enum: []any{"json", "text", "html"}, Default: "json"}}}
	g.downloading(mux, op, []string{screenJSON, plainText, screenHTML}, g.screen)
	doc.OpenAPI().Paths[op.Path].Get.Responses["200"].Content[screenJSON].Schema = doc.OpenAPI().Components.Schemas.Schema(typeOf[screen.Shown](), true, "")

	where := &huma.Param{Name: "path", In: "query", Required: true, Schema: text, Description: "Absolute, inside the session"}
	op = route{id: "files_get", method: "GET", path: one + "/files", tag: tag, summary: "Get a file or a tree as tar; it is resumed if need be"}.operation()
	op.Parameters = []*huma.Param{of, where}
	g.downloading(mux, op, []string{tarball}, g.read)

	op = route{id: "files_put", method: "PUT", path: one + "/files", tag: tag, summary: "Unpack a tar below a directory, or as a name; it is resumed if need be", status: http.StatusNoContent}.operation()
	op.Parameters = []*huma.Param{of, where}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{tarball: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
	op.Description = "The token has the role owner or operator. The archive has 512 KiB at most; links in it or in the session lead nowhere outside."
	op.Extensions = nil
	op.Responses = map[string]*huma.Response{"204": {Description: "It is written"}, "default": {Description: "Error", Content: map[string]*huma.MediaType{
		problemType: {Schema: doc.OpenAPI().Components.Schemas.Schema(typeOf[Problem](), true, "")},
	}}}
	doc.OpenAPI().AddOperation(&op)
	mux.HandleFunc("PUT "+op.Path, g.write)
}

// The media types of what is inside.
const (
	screenJSON = "application/json"
	screenHTML = "text/html"
	tarball    = "application/x-tar"
)

// screen answers with what the terminal shows.
func (g insides) screen(d *download, v schemas.View, r *http.Request) error {
	form := cmp.Or(r.URL.Query().Get("format"), "json")
	if !slices.Contains([]string{"json", "text", "html"}, form) {
		return schemas.UsageError("format %.40q: want json, text or html", form)
	}
	var s *screen.Screen
	err := g.asHost(d.ctx, v, func(conn net.Conn) error {
		head, paint, err := attach.FetchScreen(conn)
		if err == nil {
			s = screen.New(int(head.Rows), int(head.Cols))
			s.Write(paint)
		}
		return err
	})
	if err != nil {
		return err
	}
	switch form {
	case "text":
		d.media = plainText
		_, err = fmt.Fprint(d, screen.ShownOf(s))
	case "html":
		d.media = screenHTML + "; charset=utf-8"
		_, err = fmt.Fprint(d, screen.HTML(s))
	default:
		d.media = screenJSON
		err = json.NewEncoder(d).Encode(screen.ShownOf(s))
	}
	return err
}

// wait answers once the session is in one of some states.
func (g insides) wait(asked context.Context, in *waitIn) (*answer[Session], error) {
	ctx, end, err := g.within(asked, in.Waiting)
	if err != nil {
		return nil, problem(err)
	}
	defer end()
	wanted := in.State
	if len(wanted) == 0 {
		wanted = []string{string(schemas.Exited), string(schemas.Failed)}
	}
	var v schemas.View
	if err := g.gate.ask(asked, "show", schemas.Request{Name: in.name()}, &v); err != nil { // before anything is followed: it may not be the caller's
		return nil, err
	}
	news, err := newsOf(ctx, g.gate.nc, v.Name)
	if err != nil {
		return nil, problem(err)
	}
	for !slices.Contains(wanted, string(v.State)) {
		select {
		case <-ctx.Done():
			return nil, problem((&schemas.APIError{Code: schemas.CodeTimeout, Session: v.Name, Text: fmt.Sprintf("session %s is %s and not %s yet", v.Name, v.State, strings.Join(wanted, " or "))}).WithHint("ask again"))
		case p := <-news:
			if p != nil {
				continue // a step of an operation
			}
		case <-time.After(shareEvery):
		}
		if err := g.gate.ask(ctx, "show", schemas.Request{Name: in.name()}, &v); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	return &answer[Session]{Body: shown(v)}, nil
}

// within bounds the time of a request that has the gateway wait, and how many of one caller there are.
func (g insides) within(ctx context.Context, w Waiting) (context.Context, func(), error) {
	limit, err := w.limit()
	if err != nil {
		return nil, nil, err
	}
	var me schemas.WhoAmI
	if err := g.gate.ask(ctx, "whoami", schemas.Request{}, &me); err != nil {
		return nil, nil, err
	}
	ctx, done, p := g.gate.streams.begin(ctx, me.Actor)
	if p != nil {
		return nil, nil, p
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(time.Duration(limit), defaultWait))
	return ctx, func() { cancel(); done() }, nil
}

// exec runs a command.
func (g insides) exec(ctx context.Context, in *execIn) (*answer[Executed], error) {
	if _, err := g.mayRead(ctx); err != nil {
		return nil, problem(err)
	}
	ctx, end, err := g.within(ctx, in.Waiting)
	if err != nil {
		return nil, problem(err)
	}
	defer end()
	b := in.Body
	var stdout, stderr head
	streams := attach.Streams{Stdin: strings.NewReader(b.Stdin), Stdout: &stdout, Stderr: &stderr}
	exit, err := g.do(ctx, in.OfSession, attach.Request{Op: attach.OpExec, Argv: b.Command, Env: b.Env, Dir: b.Dir, User: b.User, Stdin: true}, streams)
	if err != nil {
		return nil, problem(err)
	}
	return &answer[Executed]{Body: Executed{
		Exit: exit.Code, Signal: exit.Signal, Reason: exit.Reason, Stdout: stdout.text(), Stderr: stderr.text(), Cut: stdout.cut || stderr.cut,
	}}, nil
}

// head keeps the beginning of an output.
type head struct {
	kept []byte
	cut  bool
}

func (b *head) Write(p []byte) (int, error) {
	n := min(len(p), maxOutput-len(b.kept))
	b.kept, b.cut = append(b.kept, p[:n]...), b.cut || n < len(p)
	return len(p), nil
}

func (b *head) text() string { return strings.ToValidUTF8(string(b.kept), "\ufffd") }

// do has a session run, and carries a request out in it. What the session refuses is its state.
func (g insides) do(ctx context.Context, of OfSession, r attach.Request, s attach.Streams) (exit schemas.ExitStatus, err error) {
	var v schemas.View
	if err := g.gate.ask(ctx, "ensure", schemas.Request{Name: of.name()}, &v); err != nil {
		return exit, err
	}
	err = g.asHost(ctx, v, func(conn net.Conn) (err error) {
		exit, err = attach.Do(conn, r, s)
		var refused attach.RemoteError
		if errors.As(err, &refused) {
			return schemas.StateError(schemas.ReasonFailed, "%s", schemas.Shown(string(refused)))
		}
		return err
	})
	return exit, err
}

// pathIn reads the path of a file in a session.
func pathIn(r *http.Request) (string, error) {
	p := r.URL.Query().Get("path")
	if !path.IsAbs(p) || strings.ContainsRune(p, 0) {
		return "", schemas.UsageError("path %.40q: want an absolute one, inside the session", p)
	}
	return path.Clean(p), nil
}

// read answers with a file or a tree.
func (g insides) read(d *download, v schemas.View, r *http.Request) error {
	from, err := pathIn(r)
	if err != nil {
		return err
	}
	d.media, d.file = tarball, path.Base(from)+".tar"
	_, err = g.do(d.ctx, OfSession{Session: inPath(v.Name)}, attach.Request{Op: attach.OpGet, Path: from}, attach.Streams{Stdout: d})
	return err
}

// write unpacks the body, which the guard has bounded and read.
func (g insides) write(w http.ResponseWriter, r *http.Request) {
	err := g.unpack(r)
	if err != nil {
		problem(err).write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (g insides) unpack(r *http.Request) error {
	if _, err := g.mayRead(r.Context()); err != nil {
		return err
	}
	of := OfSession{Session: r.PathValue("session")}
	if _, err := g.viewRead(r.Context(), of); err != nil {
		return err
	}
	to, err := pathIn(r)
	if err != nil {
		return err
	}
	ctx, end, err := g.within(r.Context(), Waiting{})
	if err != nil {
		return err
	}
	defer end()
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	_, err = g.do(ctx, of, attach.Request{Op: attach.OpPut, Path: to, Stdin: true}, attach.Streams{Stdin: &body})
	return err
}
