package gateway

import "github.com/diapause/diapause/schemas"

// LabelBody changes the labels of a session.
type LabelBody struct {
	WhyBody
	schemas.LabelRequest
}

type labelIn struct {
	OfSession
	Waiting
	Body LabelBody
}

func (in *labelIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Reason: in.Body.Reason, Label: &in.Body.LabelRequest}, nil
}

// labels are the operations on labels of sessions.
func (g *Gateway) labels() {
	verb(g, route{verb: "label", method: "PATCH", path: "/sessions/{session}/labels", tag: "sessions", summary: "Set and remove labels"}, (*labelIn).request, session)
}
