package gateway

import "github.com/diapause/diapause/schemas"

// RedactBody says what is taken out of a recording.
type RedactBody struct {
	WhyBody
	schemas.RedactRequest
}

type redactIn struct {
	OfSession
	Waiting
	Body RedactBody
}

func (in *redactIn) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Reason: in.Body.Reason, Redact: &in.Body.RedactRequest}, nil
}

// redactions are the operations that take something out of recordings.
func redactions(g *Gateway) {
	verb(g, route{verb: "redact", method: "POST", path: "/sessions/{session}/redact", tag: "sessions", summary: "Take out of its recording what a regular expression matches"},
		(*redactIn).request, same[redactIn, schemas.Redacted])
}
