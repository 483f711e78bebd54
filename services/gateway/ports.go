package gateway

import "github.com/diapause/diapause/schemas"

// OfPort is a port of a session in a path.
type OfPort struct {
	OfSession
	Waiting
	Port uint16 `path:"port" minimum:"1" maximum:"65535" example:"3000"`
}

func (in *OfPort) request() (schemas.Request, error) {
	return schemas.Request{Name: in.name(), Reach: &schemas.ReachRequest{Port: in.Port}}, nil
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
	verb(g, route{verb: "reach", method: "GET", path: one, tag: tag, summary: "Say whether the token may reach a port, and who else may; this is never activity"}, (*OfPort).request, same[OfPort, schemas.Reach])
	verb(g, route{verb: "expose", method: "PUT", path: one, tag: tag, summary: "Say who may reach a port"}, (*exposeIn).request, session)
}
