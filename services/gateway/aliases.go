package gateway

import (
	"context"
	"math"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/schemas"
)

// The paths that earlier designs promise, with the bodies that they promise. Each is a verb that has a path of
// its own above.

// Hibernated is the answer to a suspend.
type Hibernated struct {
	Status string  `json:"status" enum:"suspended"`
	SizeMB float64 `json:"snapshot_size_mb" doc:"What the snapshot takes in the store, in units of 1,000,000 bytes"`
}

// Restored is the answer to a resume.
type Restored struct {
	Status  string `json:"status" enum:"restored"`
	VNCPort uint16 `json:"vnc_port,omitempty" doc:"Of a desktop: the port of 127.0.0.1 on its host that leads to its VNC server"`
}

func restoredBy(v schemas.View) Restored {
	r := Restored{Status: "restored"}
	if v.Desktop != nil {
		r.VNCPort = v.Desktop.VNCPort
	}
	return r
}

const (
	megabyte = 1e6
	// byGet is the warning of a GET that changes something.
	byGet = `299 - "a GET that changes something is for old clients: use POST"`
)

func hibernated(v schemas.View) Hibernated {
	h := Hibernated{Status: string(schemas.Suspended)}
	if v.Snapshot != nil {
		h.SizeMB = math.Round(float64(v.Snapshot.StoredBytes)/megabyte*1000) / 1000
	}
	return h
}

func (g *Gateway) aliases() {
	const tag = "earlier designs"
	suspended := func(_ *lookIn, v schemas.View) (*answer[Hibernated], error) {
		return &answer[Hibernated]{Body: hibernated(v)}, nil
	}
	restored := func(_ *lookIn, v schemas.View) (*answer[Restored], error) {
		return &answer[Restored]{Body: restoredBy(v)}, nil
	}
	verb(g, route{verb: "suspend", id: "old_suspend", method: "POST", path: "/sessions/{session}/suspend", whole: true, tag: tag, summary: "The same as suspend"}, (*lookIn).request, suspended)
	verb(g, route{verb: "ensure", id: "old_restore", method: "POST", path: "/sessions/{session}/restore", whole: true, tag: tag, summary: "The same as ensure"}, (*lookIn).request, restored)
	const terminal = "/terminal/sessions/{session}"
	for _, method := range []string{"POST", "GET"} {
		warning, id, old := "", "terminal_", method == "GET"
		if old {
			warning, id = byGet, "terminal_get_"
		}
		verb(g, route{verb: "suspend", id: id + "hibernate", method: method, path: terminal + "/hibernate", tag: tag, summary: "The same as suspend", old: old}, (*lookIn).request,
			func(_ *lookIn, v schemas.View) (*answer[Hibernated], error) {
				return &answer[Hibernated]{Body: hibernated(v), Warning: warning}, nil
			})
		verb(g, route{verb: "ensure", id: id + "restore", method: method, path: terminal + "/restore", tag: tag, summary: "The same as ensure", old: old}, (*lookIn).request,
			func(_ *lookIn, v schemas.View) (*answer[Restored], error) {
				return &answer[Restored]{Body: restoredBy(v), Warning: warning}, nil
			})
	}
	verb(g, route{verb: "list", id: "terminal_hibernated", method: "GET", path: "/terminal/sessions/hibernated", tag: tag, summary: "List the suspended sessions of the class terminal"},
		(*hibernatedIn).request, func(in *hibernatedIn, views []schemas.View) (*answer[Page], error) {
			return page(&listIn{Linked: in.Linked, Limit: in.Limit}, views)
		})
	g.heartbeat(tag)
}

type hibernatedIn struct {
	Waiting
	Linked
	Tenant schemas.Tenant `query:"tenant"`
	Limit  int            `query:"limit" minimum:"1" maximum:"400" default:"100"`
	After  string         `query:"after" doc:"The next of the page before"`
}

func (in *hibernatedIn) request() (schemas.Request, error) {
	return (&listIn{Tenant: in.Tenant, Class: "terminal", State: []string{string(schemas.Suspended)}, Limit: in.Limit, After: in.After}).request()
}

// heartbeat says that a page which shows a session is visible. It answers without a body.
func (g *Gateway) heartbeat(tag string) {
	r := route{verb: "activity", id: "heartbeat", method: "POST", path: "/api/sessions/{session}/heartbeat", whole: true, tag: tag, status: http.StatusNoContent,
		summary: "Begin the grace of a session again; this never resumes it"}
	huma.Register(g.doc, r.operation(), func(ctx context.Context, in *lookIn) (*struct{}, error) {
		req, err := in.request()
		if err != nil {
			return nil, problem(err)
		}
		if req.Wait, err = in.limit(); err != nil {
			return nil, problem(err)
		}
		req.Activity = &schemas.ActivityRequest{Kind: schemas.KindHeartbeat}
		return nil, g.ask(ctx, r.verb, req, &schemas.View{})
	})
}
