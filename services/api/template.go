package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/fleet"
)

// templates answers the verbs of templates.
//
// A template is a record beside those of sessions, under a name that no session has and in a state of its own, which no
// transition leads to running: so its lineage is kept, pruned, wrapped to new readers, counted, recovered and shredded by what does
// that for sessions. Its image is the snapshot that it was made of, written once more by a worker, which can read it:
// whole, into that lineage, with a key of its own. What is done to the session that it was made of is no concern of it.
// While it is being made its record points at that snapshot, which stays meanwhile; it isn't listed before it is complete.
type templates struct {
	makes *maker
	board *board
}

// templateTrigger is the trigger of a checkpoint that a template is made of.
const templateTrigger = "template"

// The verbs of templates that are about one, and the one that lists them.
const (
	templateCreate = "template_create"
	templateRun    = "template_run"
	templateRemove = "template_rm"
	templateShow   = "template_show"
	templateList   = "template_ls"
)

// ofTemplates are all of them.
var ofTemplates = []string{templateCreate, templateShow, templateRun, templateRemove, templateList}

func (t *templates) verbs() map[string]handler {
	return map[string]handler{templateCreate: t.create, templateShow: t.show, templateRun: t.run, templateRemove: t.remove, templateList: t.list}
}

// templateName reads the template that a request is about.
func templateName(s string) (schemas.Name, error) {
	n, err := schemas.ParseTemplate(s)
	if err != nil {
		return n, schemas.UsageError("%v", err)
	}
	return n, nil
}

// called is the name of a template, as its users know it.
func called(n schemas.Name) string {
	text, _ := n.Template()
	return text
}

// create makes a template of a session: of one of its snapshots, or of what it is now.
func (t *templates) create(ctx context.Context, req request) (any, error) {
	from, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	to, err := templateName(req.To)
	if err != nil {
		return nil, err
	}
	what := "make template " + called(to)
	if from.Tenant != to.Tenant {
		return nil, schemas.UsageError("%s: session %s is another tenant's", what, from).WithHint("a template and what it is made of belong to one tenant")
	}
	if _, err := t.free(ctx, to); err != nil {
		return nil, err
	}
	if err := t.makes.quotas.mayStore(ctx, to.Tenant); err != nil {
		return nil, err
	}
	v, err := t.makes.origin(ctx, from, req, templateTrigger)
	if err != nil {
		return nil, err
	}
	if err := mayCarry(req.by, v.SessionRecord); err != nil {
		return nil, err
	}
	return t.make(ctx, to, req, what, v)
}

// make has a host write the template. If that host can't, others are tried.
func (t *templates) make(ctx context.Context, n schemas.Name, req request, what string, v statekv.Versioned) (any, error) {
	fresh := like(v.SessionRecord)
	fresh.Tenant, fresh.Session, fresh.Keeps, fresh.Needs = n.Tenant, n.Session, v.Keeps, append(fresh.Needs, schemas.FeatureTemplates)
	want := fleet.Want{Session: n, Need: schemas.Fingerprint{Driver: v.Driver}, Knows: fresh.Needs, Prefer: v.Host}
	var failed error
	for {
		host, _, err := t.makes.hosts.place(ctx, want, nil)
		if err != nil {
			return nil, cmp.Or(failed, err)
		}
		got, refused, err := t.makeOn(ctx, host, n, req, what, fresh, v)
		if err == nil || !refused {
			return got, err
		}
		failed = cmp.Or(failed, err)
		want.Not = append(want.Not, host)
	}
}

// makeOn has one host write the template, and waits for that. refused says that another one may be able to.
func (t *templates) makeOn(ctx context.Context, host schemas.HostID, n schemas.Name, req request, what string, fresh schemas.NewSession, v statekv.Versioned) (got schemas.TemplateView, refused bool, err error) {
	prev, err := t.free(ctx, n) // it may have been taken since: a capture takes a while
	if err != nil {
		return got, false, err
	}
	op, err := t.makes.sessions.newOp(ctx, schemas.OpRewrite)
	if err != nil {
		return got, false, err
	}
	op.Source, op.Trigger, op.Description = v.Head, templateTrigger, req.Description
	fresh.UID = newUID()
	fresh.Lineage, fresh.Born = string(fresh.UID), op.Seq
	ch, stop := t.board.follow(n)
	defer stop()
	made, err := t.makes.sessions.ask(ctx, prev, req, schemas.Transition{
		Type: schemas.TTemplate, Reason: "made of session " + v.Name().String() + " at " + snapshotID(*v.Head),
		Set: schemas.Set{New: &fresh, Host: host, Op: op, Idle: v.Idle},
	})
	if errors.Is(err, statekv.ErrConflict) {
		return got, false, schemas.StateError(schemas.ReasonConflict, "%s: another request made one just now", what)
	}
	if err != nil {
		return got, false, err
	}
	if err := t.makes.stillThere(ctx, req, what, v, made, *v.Head); err != nil {
		return got, false, err
	}
	w, err := await(ctx, ch, func(w statekv.Versioned) (outcome, error) {
		return when(w.Version > made.Version && w.Op == nil || w.UID != made.UID), nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return got, false, timeout("template "+called(n)+" is still being made").WithHint("`diapause template ls` lists it when it is complete; `diapause template rm %s` gives it up", called(n))
	}
	if err != nil {
		return got, false, err
	}
	if w.UID == made.UID && w.State == schemas.Template {
		return schemas.ViewTemplate(w.SessionRecord), false, nil
	}
	refused, err = t.whyNot(ctx, made, what)
	return got, refused, err
}

// whyNot says why a template isn't there after all.
func (t *templates) whyNot(ctx context.Context, made statekv.Versioned, what string) (refused bool, err error) {
	revs, err := t.makes.records.History(ctx, made.Name())
	if err != nil {
		return false, err
	}
	for _, v := range slices.Backward(revs) {
		f := v.Transition.Set.Failure
		if v.UID != made.UID || v.Transition.Type != schemas.TRemove {
			continue
		}
		if f == nil {
			break // someone removed it
		}
		return f.Kind == failureRefused, schemas.FailedError("", "%s: %s", what, f.Text).WithHint("%s", f.Hint)
	}
	return false, schemas.StateError(schemas.ReasonDeleted, "%s: it was removed meanwhile", what)
}

// failureRefused is the kind of a failure that this host has and another one may not.
const failureRefused = "refused"

// free gives what is recorded under a name, and refuses one that is taken. A removal that is under way goes to its end first: nothing
// else would delete what it is about.
func (t *templates) free(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	v, err := t.makes.records.Get(ctx, n)
	switch {
	case errors.Is(err, statekv.ErrNoSession):
		return v, nil
	case err != nil:
		return v, err
	case v.State != schemas.Deleted && v.Op != nil:
		return v, schemas.StateError(schemas.ReasonBusy, "template %s is being made", called(n)).WithHint("`diapause template rm %s` gives it up", called(n))
	case v.State != schemas.Deleted:
		return v, schemas.StateError(schemas.ReasonExists, "template %s exists", called(n)).WithHint("give it another name, or remove that one with `diapause template rm %s`", called(n))
	case v.Op != nil:
		return v, schemas.StateError(schemas.ReasonBusy, "the last template %s is being removed: %s", called(n), v.Transition.Reason).WithHint("try again later")
	}
	return v, nil
}

// ready reads a template that sessions can be made from.
func (t *templates) ready(ctx context.Context, n schemas.Name) (statekv.Versioned, error) {
	v, err := t.makes.records.Get(ctx, n)
	switch {
	case err != nil && !errors.Is(err, statekv.ErrNoSession):
		return v, err
	case err != nil, v.State != schemas.Template:
		return v, noTemplate(n)
	case v.Head == nil:
		return v, schemas.StateError(schemas.ReasonBusy, "template %s is being made", called(n)).WithHint("try again when `diapause template ls` lists it")
	}
	return v, nil
}

func noTemplate(n schemas.Name) error {
	return (&schemas.APIError{Code: schemas.CodeNoSession, Text: fmt.Sprintf("no such template: %s", called(n))}).WithHint("`diapause template ls` lists them")
}

// run makes a session from a template, as fork does from a session.
func (t *templates) run(ctx context.Context, req request) (any, error) {
	n, err := templateName(req.Name)
	if err != nil {
		return nil, err
	}
	v, err := t.ready(ctx, n)
	if err != nil {
		return nil, err
	}
	return t.makes.twin(ctx, n, "run template "+called(n), req, func() (statekv.Versioned, error) { return v, nil })
}

// show shows a template: one that is being made, or whose removal waits for others, as well.
func (t *templates) show(ctx context.Context, req request) (any, error) {
	n, err := templateName(req.Name)
	if err != nil {
		return nil, err
	}
	v, err := t.makes.records.Get(ctx, n)
	switch {
	case err != nil && !errors.Is(err, statekv.ErrNoSession):
		return nil, err
	case err != nil, v.State == schemas.Deleted && v.Op == nil:
		return nil, noTemplate(n)
	}
	return schemas.ViewTemplate(v.SessionRecord), nil
}

// list lists the templates of a tenant, or of all, that sessions can be made from.
func (t *templates) list(_ context.Context, req request) (any, error) {
	out := []schemas.TemplateView{}
	for r := range t.board.all(req.Tenant) {
		if r.State != schemas.Template || r.Head == nil {
			continue
		}
		out = append(out, schemas.ViewTemplate(r))
	}
	slices.SortFunc(out, func(a, b schemas.TemplateView) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// remove shreds a template. Its image stays for as long as a session that began from it has none of its own.
func (t *templates) remove(ctx context.Context, req request) (any, error) {
	n, err := templateName(req.Name)
	if err != nil {
		return nil, err
	}
	ch, stop := t.board.follow(n)
	defer stop()
	for {
		v, err := t.makes.records.Get(ctx, n)
		if err != nil && !errors.Is(err, statekv.ErrNoSession) {
			return nil, err
		}
		if err != nil || v.State != schemas.Template {
			return nil, noTemplate(n)
		}
		op, err := t.makes.sessions.newOp(ctx, schemas.OpRemove)
		if err != nil {
			return nil, err
		}
		op.Shred = true
		v, err = t.makes.sessions.ask(ctx, v, req, schemas.Transition{
			Type: schemas.TRemove, Reason: "asked to remove it", Set: schemas.Set{Op: op, Host: t.makes.hosts.remover(ctx, v, schemas.TRemove)},
		})
		if errors.Is(err, statekv.ErrConflict) {
			continue
		}
		if err != nil {
			return nil, err
		}
		w, err := await(ctx, ch, func(w statekv.Versioned) (outcome, error) {
			return when(w.Version > v.Version && (w.Op == nil || w.Transition.Type == schemas.TDeferred)), nil
		})
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, timeout(fmt.Sprintf("template %s is deleted, its host hasn't finished with it yet", called(n)))
		}
		return schemas.ViewTemplate(w.SessionRecord), err
	}
}
