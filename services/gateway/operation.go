package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/schemas"
)

// route is where a verb is found.
type route struct {
	verb    string // of the API
	id      string // of the operation, if that isn't the verb
	method  string
	path    string // below prefix, unless it is whole
	tag     string
	summary string
	status  int  // of success; 200 if 0
	whole   bool // the path has the prefix already, or needs none
	old     bool // for old clients alone
}

func (r route) operation() huma.Operation {
	op := huma.Operation{
		OperationID: r.verb, Method: r.method, Path: r.path, Tags: []string{r.tag}, Summary: r.summary, DefaultStatus: r.status,
		BodyReadTimeout: -1, // the guard has read it
		Extensions:      map[string]any{"x-diapause-verb": r.verb},
		Deprecated:      r.old,
	}
	if r.id != "" {
		op.OperationID = r.id
	}
	if !r.whole {
		op.Path = prefix + r.path
	}
	if r.status == 0 {
		op.DefaultStatus = http.StatusOK
	}
	return op
}

// keyHeader is the header of a key by which a request that is sent again is known.
const keyHeader = "Idempotency-Key"

// noKeys refuses a key where it isn't kept: its sender would take it for a promise. GET, PUT and DELETE need none.
func noKeys(ctx huma.Context, next func(huma.Context)) {
	op := ctx.Operation()
	takes := slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "header" && p.Name == keyHeader })
	if takes || ctx.Header(keyHeader) == "" || ctx.Method() != http.MethodPost && ctx.Method() != http.MethodPatch {
		next(ctx)
		return
	}
	p := refusal(http.StatusBadRequest, op.OperationID+" takes no "+keyHeader, "leave it out; after a lost answer, list what there is before asking again")
	ctx.SetHeader("Content-Type", problemType)
	ctx.SetStatus(p.Status)
	_ = encoder.Marshal(ctx.BodyWriter(), p) // the client is gone, then
}

// answer is what an operation answers.
type answer[O any] struct {
	ETag     string `header:"ETag" doc:"Of a policy: its version, for If-Match"`
	Location string `header:"Location" doc:"Of what was made"`
	Link     string `header:"Link" doc:"Of a list that isn't all: where the next page is, with rel=\"next\""`
	Warning  string `header:"Warning"`
	Body     O
}

// verb makes an operation: ask makes the request of what came in, show makes the body of the API's answer.
func verb[I, A, O any](g *Gateway, r route, ask func(*I) (schemas.Request, error), show func(*I, A) (*answer[O], error)) {
	huma.Register(g.doc, r.operation(), func(ctx context.Context, in *I) (*answer[O], error) {
		req, err := ask(in)
		if err != nil {
			return nil, problem(err)
		}
		if w, ok := any(in).(interface {
			limit() (schemas.Duration, error)
		}); ok {
			if req.Wait, err = w.limit(); err != nil {
				return nil, problem(err)
			}
		}
		var a A
		if err := g.ask(ctx, r.verb, req, &a); err != nil {
			if m, ok := any(in).(interface{ refused(error) error }); ok {
				return nil, m.refused(err)
			}
			return nil, err
		}
		out, err := show(in, a)
		if err != nil {
			return nil, problem(err)
		}
		return out, nil
	})
}

// same shows an answer as it is.
func same[I, O any](_ *I, a O) (*answer[O], error) { return &answer[O]{Body: a}, nil }

// Waiting is how long the answer may take.
type Waiting struct {
	Wait string `query:"wait" doc:"How long the answer may take, as 30s or 5m; 2m if it isn't given. What was asked for goes on after it" example:"30s"`
}

func (w Waiting) limit() (schemas.Duration, error) {
	if w.Wait == "" {
		return 0, nil
	}
	d, err := schemas.ParseDuration(w.Wait)
	if err != nil || d < time.Millisecond {
		return 0, schemas.UsageError("wait %q: want a time such as 30s", w.Wait)
	}
	return schemas.Duration(d), nil
}

// OfSession is a session in a path.
type OfSession struct {
	Session string `path:"session" doc:"TENANT.ID, or ID for the tenant default" maxLength:"129" example:"work"`
}

func (o OfSession) name() string { return strings.Replace(o.Session, ".", "/", 1) }

// inPath is the inverse of OfSession.name.
func inPath(name string) string { return strings.Replace(name, "/", ".", 1) }
