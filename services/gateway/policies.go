package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// OfScope is whose policy, in a path.
type OfScope struct {
	Waiting
	Scope string `path:"scope" doc:"all, class:NAME, tenant:NAME or session:TENANT.ID" example:"class:web"`
}

func (in *OfScope) scope() string {
	if name, ok := strings.CutPrefix(in.Scope, "session:"); ok {
		return "session:" + strings.Replace(name, ".", "/", 1)
	}
	return in.Scope
}

func (in *OfScope) request() (schemas.Request, error) {
	return schemas.Request{Policy: &schemas.PolicyRequest{Scope: in.scope()}}, nil
}

// PolicyBody is a policy, and why.
type PolicyBody struct {
	Policy schemas.Policy `json:"policy" doc:"The whole of it: what is left out is taken back"`
	Reason string         `json:"reason,omitempty"`
}

type setPolicyIn struct {
	OfScope
	Match string `header:"If-Match" doc:"The ETag of the version that is replaced: refused with 412 if that isn't the last" example:"\"3\""`
	None  string `header:"If-None-Match" enum:"*" doc:"Refused with 412 if the scope has a policy"`
	Body  PolicyBody
}

// version reads If-Match; nil is any version.
func (in *setPolicyIn) version() (*uint64, error) {
	if in.Match == "" || in.Match == "*" {
		return nil, nil
	}
	text, err := strconv.Unquote(in.Match)
	if err == nil {
		var n uint64
		if n, err = strconv.ParseUint(text, 10, 64); err == nil {
			return &n, nil
		}
	}
	return nil, schemas.UsageError("If-Match %q: want one ETag of this policy", in.Match)
}

func (in *setPolicyIn) request() (schemas.Request, error) {
	version, err := in.version()
	return schemas.Request{Reason: in.Body.Reason, Policy: &schemas.PolicyRequest{Scope: in.scope(), Policy: &in.Body.Policy, Version: version, Absent: in.None != ""}}, err
}

// TryBody is a policy that is only tried; the one that holds if it has none.
type TryBody struct {
	Policy *schemas.Policy  `json:"policy,omitempty"`
	Since  schemas.Duration `json:"since,omitempty" doc:"Of simulate: how far back"`
	Lives  bool             `json:"lives,omitempty" doc:"Of simulate: what single sessions would have done, too"`
}

type tryIn struct {
	OfScope
	Body *TryBody
}

func (in *tryIn) request() (schemas.Request, error) {
	p := &schemas.PolicyRequest{Scope: in.scope()}
	if in.Body != nil {
		p.Policy, p.Since, p.Lives = in.Body.Policy, in.Body.Since, in.Body.Lives
	}
	return schemas.Request{Policy: p}, nil
}

func tagged(v schemas.PolicyView) *answer[schemas.PolicyView] {
	return &answer[schemas.PolicyView]{Body: v, ETag: fmt.Sprintf("%q", strconv.FormatUint(v.Version, 10))}
}

// policies are the operations on policies.
func (g *Gateway) policies() {
	const tag, one = "policies", "/policies/{scope}"
	verb(g, route{verb: "policy_get", id: "policy_ls", method: "GET", path: "/policies", tag: tag, summary: "List what sessions are held to"},
		func(in *pageIn) (schemas.Request, error) {
			return schemas.Request{Policy: &schemas.PolicyRequest{}, Page: in.page()}, nil
		}, part[pageIn, schemas.PolicyView])
	verb(g, route{verb: "policy_get", method: "GET", path: one, tag: tag, summary: "Show the policy of a scope"}, (*OfScope).request,
		func(_ *OfScope, all []schemas.PolicyView) (*answer[schemas.PolicyView], error) {
			if len(all) != 1 {
				return nil, fmt.Errorf("%d policies for one scope", len(all))
			}
			return tagged(all[0]), nil
		})
	verb(g, route{verb: "policy_set", method: "PUT", path: one, tag: tag, summary: "Replace the policy of a scope"}, (*setPolicyIn).request,
		func(_ *setPolicyIn, v schemas.PolicyView) (*answer[schemas.PolicyView], error) { return tagged(v), nil })
	verb(g, route{verb: "policy_test", method: "POST", path: one + "/test", tag: tag, summary: "Say what a policy would do now"}, (*tryIn).request, same[tryIn, schemas.PolicyTest])
	verb(g, route{verb: "policy_simulate", method: "POST", path: one + "/simulate", tag: tag, summary: "Say what a policy would have done"}, (*tryIn).request, same[tryIn, schemas.PolicySimulation])
}

// refused says of a conflict that If-Match or If-None-Match has asked for it.
func (in *setPolicyIn) refused(err error) error {
	var p *Problem
	if in.Match+in.None != "" && errors.As(err, &p) && p.Reason == schemas.ReasonConflict {
		p.Status, p.Title = http.StatusPreconditionFailed, http.StatusText(http.StatusPreconditionFailed)
	}
	return err
}
