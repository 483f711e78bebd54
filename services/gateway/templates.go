package gateway

import (
	"net/http"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// OfTemplate is a template in a path.
type OfTemplate struct {
	Template string `path:"template" doc:"TENANT.NAME, or NAME for the tenant default" maxLength:"119" example:"py"`
}

func (o OfTemplate) name() string { return strings.Replace(o.Template, ".", "/", 1) }

// TemplateBody is a template that is to be made.
type TemplateBody struct {
	WhyBody
	Name        string `json:"name" doc:"TENANT/NAME, or NAME for the tenant default"`
	From        string `json:"from" doc:"The session that it is made of, of the same tenant: TENANT/ID, or ID for the tenant default"`
	Snapshot    string `json:"snapshot,omitempty" doc:"The snapshot of that session, in place of what that is now"`
	Description string `json:"description,omitempty"`
}

type templateIn struct {
	Waiting
	Body TemplateBody
}

func (in *templateIn) request() (schemas.Request, error) {
	b := in.Body
	return schemas.Request{Name: b.From, To: b.Name, Snapshot: b.Snapshot, Description: b.Description, Reason: b.Reason}, nil
}

type showTemplateIn struct {
	OfTemplate
	Waiting
}

func (in *showTemplateIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name()}, nil
}

type removeTemplateIn struct {
	OfTemplate
	Waiting
	Reason string `query:"reason"`
}

func (in *removeTemplateIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Reason: in.Reason}, nil
}

// FromTemplateBody is the session that is made from a template.
type FromTemplateBody struct {
	WhyBody
	Name    string   `json:"name" doc:"TENANT/ID, or ID for the tenant default"`
	Publish []string `json:"publish,omitempty" doc:"[ADDR:]HOST:PORT in place of the ports that the template publishes; none alone for no ports"`
}

type fromTemplateIn struct {
	OfTemplate
	Waiting
	Idempotent
	Body FromTemplateBody
}

func (in *fromTemplateIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), To: in.Body.Name, Publish: in.Body.Publish, Reason: in.Body.Reason, Once: in.Key}, nil
}

// madeTemplate shows a template that was made, with where to find it.
func madeTemplate(_ *templateIn, v schemas.TemplateView) (*answer[schemas.TemplateView], error) {
	return &answer[schemas.TemplateView]{Body: v, Location: prefix + "/templates/" + inPath(v.Name)}, nil
}

// templates adds the operations on templates.
func templates(g *Gateway) {
	const tag, all = "templates", "/templates"
	verb(g, route{verb: "template_ls", method: "GET", path: all, tag: tag, summary: "List templates"}, (*pageOfTenantIn).request, part[pageOfTenantIn, schemas.TemplateView])
	verb(g, route{verb: "template_create", method: "POST", path: all, tag: tag, summary: "Make a template of a session", status: http.StatusCreated}, (*templateIn).request, madeTemplate)
	verb(g, route{verb: "template_show", method: "GET", path: all + "/{template}", tag: tag, summary: "Show a template"}, (*showTemplateIn).request, same[showTemplateIn, schemas.TemplateView])
	verb(g, route{verb: "template_rm", method: "DELETE", path: all + "/{template}", tag: tag, summary: "Shred a template"}, (*removeTemplateIn).request, same[removeTemplateIn, schemas.TemplateView])
	verb(g, route{verb: "template_run", method: "POST", path: all + "/{template}/sessions", tag: tag, summary: "Make a session from a template", status: http.StatusCreated}, (*fromTemplateIn).request, made)
}
