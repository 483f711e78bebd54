package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// OfPort is a port of a session in a path.
type OfPort struct {
	OfSession
	Waiting
	Port uint16 `path:"port" minimum:"1" maximum:"65535" example:"3000"`
}

func (in *OfPort) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Reach: &schemas.ReachRequest{Port: in.Port}}, nil
}

// Reach is a port that the caller may reach, and where a browser does.
type Reach struct {
	schemas.Reach
	URL string `json:"url,omitempty" doc:"Where a browser reaches the port; none if this gateway leads to no ports"`
}

// ExposeBody is who may reach a port.
type ExposeBody struct {
	WhyBody
	Access schemas.Access `json:"access" enum:"private,token,public" doc:"private: browsers that are logged in, and bearers of tokens; token: bearers of tokens; public: everybody"`
}

type exposeIn struct {
	OfPort
	Body ExposeBody
}

func (in *exposeIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Reason: in.Body.Reason, Expose: &schemas.ExposeRequest{Port: in.Port, Access: in.Body.Access}}, nil
}

// ports are the operations on ports of sessions.
func (g *Gateway) ports() {
	const tag, one = "sessions", "/sessions/{session}/ports/{port}"
	huma.Register(g.doc, route{verb: "reach", method: "GET", path: one, tag: tag, summary: "Say whether the token may reach a port, and who else may; this is never activity"}.operation(), reaching{g}.reach)
	verb(g, route{verb: "expose", method: "PUT", path: one, tag: tag, summary: "Say who may reach a port"}, (*exposeIn).request, session)
}

// reaching says who may reach a port, and where.
type reaching struct{ gate *Gateway }

func (g reaching) reach(ctx context.Context, in *OfPort) (*answer[Reach], error) {
	req, err := in.request()
	if err == nil {
		req.Wait, err = in.limit()
	}
	if err != nil {
		return nil, problem(err)
	}
	var out Reach
	if err := g.gate.ask(ctx, "reach", req, &out.Reach); err != nil {
		return nil, err
	}
	if g.gate.doors == nil {
		return &answer[Reach]{Body: out}, nil
	}
	var v schemas.View
	var p *Problem
	switch err := g.gate.ask(ctx, "show", schemas.Request{Name: req.Name, Wait: req.Wait}, &v); {
	case errors.As(err, &p) && p.Status == http.StatusForbidden: // it may reach the port, and not see the session
		return &answer[Reach]{Body: out}, nil
	case err != nil:
		return nil, err
	}
	out.URL = g.gate.doors.url(requestOf(ctx), v, in.Port)
	return &answer[Reach]{Body: out}, nil
}

// url is where a browser that has sent a request reaches a port; "" where the name would lead it to its own machine.
func (d *doorway) url(r *http.Request, v schemas.View, port uint16) string {
	n, err := schemas.ParseName(v.Name)
	if err != nil {
		return ""
	}
	name := ingress.Host(d.domain, n, v.UID, port)
	if ofMachine(name) && !loopback(hostName(r.Host)) {
		return ""
	}
	u := url.URL{Scheme: schemeOf(r), Host: withPort(name, r), Path: "/"}
	return u.String()
}
