package schemas_test

import (
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// The name of a template is told from that of its record, which no session can have.
func TestTemplateNames(t *testing.T) {
	for text, want := range map[string]string{"py": "default.-template-py", "acme/py-3_x": "acme.-template-py-3_x", "default/py": "default.-template-py"} {
		n, err := schemas.ParseTemplate(text)
		if err != nil || n.Key() != want {
			t.Errorf("%s is kept as %s: %v", text, n.Key(), err)
		}
		if n.ValidateNew() == nil {
			t.Errorf("a session can have the name %s", n)
		}
		if n.Validate() != nil {
			t.Errorf("%s is no name of a record", n)
		}
		back, ok := n.Template()
		if again, err := schemas.ParseTemplate(back); !ok || err != nil || again != n {
			t.Errorf("%s is called %s: %v", n, back, err)
		}
	}
	for _, text := range []string{"", "a b", "-x", "acme/-x", "a/b/c", "x.y", strings.Repeat("x", schemas.MaxTemplateName+1), "-template-py"} {
		if n, err := schemas.ParseTemplate(text); err == nil {
			t.Errorf("%q is a template, kept as %s", text, n)
		}
	}
	for _, id := range []schemas.SessionID{"py", "template-py", "-template-", "-templates-py", ""} {
		if got, ok := (schemas.Name{Tenant: "acme", Session: id}).Template(); ok {
			t.Errorf("session %q is template %s", id, got)
		}
	}
}

// What clients see of a template.
func TestViewTemplate(t *testing.T) {
	head, op := &schemas.Head{Name: "acme/u/snaps/1-3"}, &schemas.Op{Kind: schemas.OpRewrite}
	for _, c := range []struct {
		r    schemas.SessionRecord
		want schemas.TemplateState
	}{
		{schemas.SessionRecord{State: schemas.Template, Op: op}, schemas.TemplateMaking},
		{schemas.SessionRecord{State: schemas.Template, Head: head}, schemas.TemplateReady},
		{schemas.SessionRecord{State: schemas.Deleted, Op: op, Transition: schemas.Transition{Reason: "why"}}, schemas.TemplateRemoving},
		{schemas.SessionRecord{State: schemas.Deleted}, schemas.TemplateRemoved},
	} {
		c.r.Tenant, c.r.Session = "acme", "-template-py"
		v := schemas.ViewTemplate(c.r)
		if v.State != c.want || v.Name != "acme/py" || (v.Waits != "") != (c.want == schemas.TemplateRemoving) {
			t.Errorf("%s with op %v is %+v, want %s", c.r.State, c.r.Op, v, c.want)
		}
	}
}
