package protocol_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// templated asks for a verb of templates that has to work.
func (h *host) templated(verb string, req schemas.Request) schemas.TemplateView {
	h.t.Helper()
	var v schemas.TemplateView
	if err := h.ask(verb, req, &v); err != nil {
		h.t.Fatalf("%s %s: %v", verb, req.Name, err)
	}
	return v
}

func (h *host) templates(t schemas.Tenant) (names []string) {
	h.t.Helper()
	var all []schemas.TemplateView
	h.must(h.ask("template_ls", schemas.Request{Tenant: t}, &all))
	for _, v := range all {
		names = append(names, v.Name)
	}
	return names
}

// A session from a template is kept as the one that the template was made of was, and so is one from a template that was made of
// that. What is the former's alone stays with it.
func TestTemplateIsKeptAsItsOriginIs(t *testing.T) {
	h := start(t)
	req := runRequest("work", "count")
	req.Run.Class, req.Run.MadeBy, req.Run.Idle = "terminal", "agent", &schemas.Idle{Grace: 3_600_000}
	req.Run.OnLoss, req.Run.OnBreaker = schemas.LossResume, schemas.BreakerStop
	v := h.do("run", req)
	h.count(v.UID)
	made := h.templated("template_create", schemas.Request{Name: "work", To: "py"})
	if made.State != schemas.TemplateReady || made.Origin == nil || made.Origin.Session != "work" || made.LogicalBytes == 0 {
		t.Errorf("the template is %+v", made)
	}
	was := h.get("work")
	h.do("rm", schemas.Request{Name: "work", Shred: true})
	h.do("template_run", schemas.Request{Name: "py", To: "one"})
	h.templated("template_create", schemas.Request{Name: "one", To: "second"})
	h.do("template_run", schemas.Request{Name: "second", To: "two"})
	for name, from := range map[string]string{"one": "py", "two": "second"} {
		r := h.get(name)
		if r.OnLoss != schemas.LossResume || r.OnBreaker != schemas.BreakerStop || r.Class != was.Class || r.MadeBy != was.MadeBy ||
			r.Driver != was.Driver || r.Program != was.Program || r.Spec != was.Spec || r.Idle == nil || *r.Idle != *was.Idle {
			t.Errorf("%s is kept as %+v, the first one as %+v", name, r, was)
		}
		if r.Origin == nil || r.Origin.Template != from || r.Boot != schemas.BootFork || slices.Contains(r.Needs, schemas.FeatureTemplates) {
			t.Errorf("%s has %+v, boot %s, needs %v", name, r.Origin, r.Boot, r.Needs)
		}
	}
	h.audited()
}

// Templates are no sessions, belong to a tenant, and their names are their own.
func TestTemplatesAreApart(t *testing.T) {
	h := start(t)
	h.run("work")
	h.run("acme/work")
	h.templated("template_create", schemas.Request{Name: "work", To: "work"})
	h.templated("template_create", schemas.Request{Name: "acme/work", To: "acme/work"})
	if got := h.templates(""); !slices.Equal(got, []string{"acme/work", "work"}) {
		t.Errorf("there are %v", got)
	}
	if got := h.templates("acme"); !slices.Equal(got, []string{"acme/work"}) {
		t.Errorf("of acme there are %v", got)
	}
	var views []schemas.View
	h.must(h.ask("list", schemas.Request{}, &views))
	var usage schemas.UsageReport
	h.must(h.ask("usage", schemas.Request{}, &usage))
	var stats schemas.Stats
	h.must(h.ask("stats", schemas.Request{}, &stats))
	if len(views) != 2 || len(usage.Sessions) != 2 || len(stats.Sessions) != 1 {
		t.Errorf("listed are %d, used %+v, counted %v", len(views), usage.Sessions, stats.Sessions)
	}
	for _, verb := range []string{"show", "resume", "ensure", "suspend", "rm", "kill", "history", "explain", "snapshots", "label", "dismiss", "move", "fork"} {
		if err := h.ask(verb, schemas.Request{Name: "-template-work", To: "x", Label: &schemas.LabelRequest{Remove: []string{"a"}}}, nil); code(err) != schemas.CodeNoSession {
			t.Errorf("%s of a template's record: %v", verb, err)
		}
	}
	for what, c := range map[string]struct {
		verb string
		req  schemas.Request
		want string
	}{
		"a name twice":               {"template_create", schemas.Request{Name: "work", To: "work"}, schemas.CodeState},
		"of another tenant's":        {"template_create", schemas.Request{Name: "work", To: "acme/x"}, schemas.CodeUsage},
		"of no session":              {"template_create", schemas.Request{Name: "none", To: "x"}, schemas.CodeNoSession},
		"of a template":              {"template_create", schemas.Request{Name: "-template-work", To: "x"}, schemas.CodeNoSession},
		"of no snapshot":             {"template_create", schemas.Request{Name: "work", To: "x", Snapshot: "9-9"}, schemas.CodeUsage},
		"a name that is none":        {"template_create", schemas.Request{Name: "work", To: "a b"}, schemas.CodeUsage},
		"a name that is too long":    {"template_create", schemas.Request{Name: "work", To: strings.Repeat("x", schemas.MaxTemplateName+1)}, schemas.CodeUsage},
		"a session of another's":     {"template_run", schemas.Request{Name: "acme/work", To: "x"}, schemas.CodeUsage},
		"a session that there is":    {"template_run", schemas.Request{Name: "work", To: "work"}, schemas.CodeState},
		"a session of no template":   {"template_run", schemas.Request{Name: "none", To: "x"}, schemas.CodeNoSession},
		"a session in its own place": {"template_run", schemas.Request{Name: "work", To: "-template-work"}, schemas.CodeUsage},
		"removed, and there is none": {"template_rm", schemas.Request{Name: "none"}, schemas.CodeNoSession},
	} {
		if err := h.ask(c.verb, c.req, nil); code(err) != c.want {
			t.Errorf("%s: %v", what, err)
		}
	}
	h.audited()
}

// A template that is removed is shredded: at once, or as soon as those that began from it don't need it.
func TestTemplateIsShredded(t *testing.T) {
	h := start(t)
	h.run("work")
	h.templated("template_create", schemas.Request{Name: "work", To: "py"})
	h.do("template_run", schemas.Request{Name: "py", To: "one"})
	v := h.templated("template_rm", schemas.Request{Name: "py"})
	if v.State != schemas.TemplateRemoving || !strings.Contains(v.Waits, "session one") {
		t.Errorf("it is %s, %s", v.State, v.Waits)
	}
	if got := h.templates(""); len(got) > 0 {
		t.Errorf("there are %v", got)
	}
	h.do("suspend", schemas.Request{Name: "one"})
	h.until("-template-py", "shredded", func(v statekv.Versioned) bool { return v.Transition.Type == schemas.TShredded })
	h.do("ensure", schemas.Request{Name: "one"})
	h.templated("template_create", schemas.Request{Name: "one", To: "py"})
	if v := h.templated("template_rm", schemas.Request{Name: "py"}); v.State != schemas.TemplateRemoved {
		t.Errorf("it is %s, %s", v.State, v.Waits)
	}
	h.audited()
}

// A fork begins from a snapshot of a session that has ended, too.
func TestForkOfASnapshotOfAnEndedSession(t *testing.T) {
	h := start(t)
	v := h.run("work")
	h.do("checkpoint", schemas.Request{Name: "work"})
	n := h.count(v.UID)
	head := h.get("work").Head
	h.fake.Exit(v.UID, 3)
	h.until("work", "exited", func(v statekv.Versioned) bool { return v.State == schemas.Exited })
	var e *schemas.APIError
	if err := h.ask("fork", schemas.Request{Name: "work", To: "twin"}, nil); !errors.As(err, &e) || e.Code != schemas.CodeState || !strings.Contains(e.Hint, "--snapshot") {
		t.Errorf("without a snapshot: %v", err)
	}
	id := image.SnapshotID(head.Name)
	twin := h.do("fork", schemas.Request{Name: "work", To: "twin", Snapshot: id})
	if o := twin.Origin; o == nil || o.Session != "work" || o.Snapshot != id || o.Template != "" || twin.Boot != schemas.BootFork {
		t.Errorf("its origin is %+v, its boot %s", o, twin.Boot)
	}
	if m := h.count(twin.UID); m > n+1 {
		t.Errorf("the fork goes on with %d, its origin had counted to %d", m, n)
	}
	h.audited()
}
