package gateway

import (
	"cmp"
	"net/http"

	"github.com/diapause/diapause/schemas"
)

// ListenerBody is a TCP listener that is to be added.
type ListenerBody struct {
	Session string                  `json:"session" doc:"TENANT/ID, or ID for the tenant default" maxLength:"129" example:"work"`
	Port    uint16                  `json:"port" minimum:"1" maximum:"65535" doc:"Of the session" example:"22"`
	Listen  string                  `json:"listen" maxLength:"100" doc:"ADDRESS:PORT of the part's machine, or :PORT for every address" example:":2222"`
	Part    string                  `json:"part,omitempty" doc:"Which part listens: up, also if none is named, or the name of a gateway"`
	Proxy   []schemas.ProxyProtocol `json:"proxy_protocol,omitempty" enum:"accept,send" doc:"accept: each connection begins with a PROXY header of a load balancer; send: each connection to the session begins with one"`
}

type addListenerIn struct {
	Waiting
	Body ListenerBody
}

func (in *addListenerIn) request() (schemas.Request, error) {
	b := in.Body
	return schemas.Request{Name: b.Session, Listen: &schemas.ListenRequest{Part: cmp.Or(b.Part, schemas.DefaultPart), Address: b.Listen, Port: b.Port, Proxy: b.Proxy}}, nil
}

type removeListenerIn struct {
	Waiting
	Part   string `path:"part" doc:"Which part listens" example:"up"`
	Listen string `path:"address" doc:"Its address, as the list has it" example:":2222"`
}

func (in *removeListenerIn) request() (schemas.Request, error) {
	return schemas.Request{Listen: &schemas.ListenRequest{Part: in.Part, Address: in.Listen}}, nil
}

// listeners are the operations on TCP listeners.
func (g *Gateway) listeners() {
	const tag = "listeners"
	verb(g, route{verb: "ingress_ls", method: "GET", path: "/listeners", tag: tag, summary: "List TCP listeners, and whether they listen"}, (*pageOfTenantIn).request, part[pageOfTenantIn, schemas.ListenerView])
	verb(g, route{verb: "ingress_add", method: "POST", path: "/listeners", tag: tag, summary: "Have a part take TCP connections for a port of a session", status: http.StatusCreated},
		(*addListenerIn).request, same[addListenerIn, schemas.ListenerView])
	verb(g, route{verb: "ingress_rm", method: "DELETE", path: "/listeners/{part}/{address}", tag: tag, summary: "Remove a TCP listener; its connections end"}, (*removeListenerIn).request, same[removeListenerIn, schemas.Listener])
}
