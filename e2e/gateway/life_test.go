package gateway

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
)

// session is a session as HTTP shows it.
type session struct {
	schemas.View
	PausedAt     *string
	PauseReason  string
	Capabilities map[string]bool
}

// counting is a session that is kept as it is.
func counting(name string) object {
	return object{"name": name, "idle": "never", "spec": object{"command": []string{"sh", "-c", "while sleep 1; do :; done"}}}
}

// TestLife is the life of a session over HTTP, with a restart in it: each answer is as the document says.
func TestLife(t *testing.T) {
	w := newWorld(t)
	if err := w.doc.Validate(t.Context()); err != nil {
		t.Errorf("the document is wrong: %v", err)
	}
	w.everyVerb()
	a := asks{w, w.address, w.token("--role", "operator")}
	const web = "/api/v1/sessions/{session=acme.web}"
	var first, s session
	key := []string{"Idempotency-Key: 7f3a"}
	head := a.call("POST", "/api/v1/sessions", 201, counting("acme/web"), &first, key...)
	if first.State != schemas.Running || first.PID == 0 || head.Get("Location") != "/api/v1/sessions/acme.web" || !first.Capabilities["memory"] {
		t.Errorf("it begins as %+v, at %s", first, head.Get("Location"))
	}
	w.restartWithoutThePort()
	a.call("POST", "/api/v1/sessions", 201, counting("acme/web"), &s, key...)
	if s.UID != first.UID || s.PID != first.PID {
		t.Errorf("asked again after a restart it is %s, not %s", s.UID, first.UID)
	}
	var p problem
	a.call("POST", "/api/v1/sessions", 409, counting("acme/web"), &p)
	if p.Code != schemas.CodeState || p.Reason != schemas.ReasonExists || p.Hint == "" {
		t.Errorf("without the key: %+v", p)
	}

	a.call("GET", web, 200, nil, &s)
	a.call("POST", web+"/checkpoint", 200, object{"description": "before"}, &s)
	var shots []schemas.SnapshotView
	a.call("GET", web+"/snapshots", 200, nil, &shots)
	if len(shots) != 1 || shots[0].Description != "before" {
		t.Fatalf("its snapshots are %+v", shots)
	}
	a.call("POST", web+"/suspend", 200, object{"reason": "a test"}, &s)
	if s.State != schemas.Suspended || s.Status != "paused" || s.PausedAt == nil || s.PauseReason != "manual" {
		t.Errorf("suspended it is %+v", s)
	}
	a.call("POST", web+"/verify", 200, object{"snapshot": shots[0].ID}, nil)
	a.call("POST", web+"/ensure?wait=60s", 200, nil, &s)
	if s.State != schemas.Running || s.PausedAt != nil || s.PauseReason != "" || s.Status != "" {
		t.Errorf("resumed it is %+v", s)
	}
	a.call("POST", web+"/rollback", 200, object{"snapshot": shots[0].ID}, &s)
	var fork, again session
	a.call("POST", web+"/fork", 201, object{"to": "acme/twin"}, &fork, key...)
	a.call("POST", web+"/fork", 201, object{"to": "acme/twin"}, &again, key...)
	if fork.Name != "acme/twin" || fork.UID == first.UID || again.UID != fork.UID {
		t.Errorf("the fork is %s, then %s", fork.UID, again.UID)
	}
	a.templates()
	a.policies()
	a.looks()
	a.recordings()
	a.changes()

	a.call("POST", "/api/v1/sessions/{session=acme.twin}/kill", 200, nil, &s)
	a.call("POST", "/api/v1/sessions/{session=acme.twin}/resume", 200, object{"clean": true}, &s)
	a.call("DELETE", "/api/v1/sessions/{session=acme.twin}?reason=done", 200, nil, &s)
	a.call("POST", web+"/fork", 410, object{"to": "acme/twin"}, &p, key...)
	a.call("GET", "/api/v1/sessions/{session=acme.twin}", 404, nil, &p)
	a.call("GET", "/api/v1/sessions/{session=a b}", 400, nil, &p)

	a.call("POST", "/sessions/{session=acme.web}/suspend", 200, nil, nil)
	a.call("POST", "/sessions/{session=acme.web}/restore", 200, nil, nil)
	a.call("GET", "/api/v1/terminal/sessions/{session=acme.web}/hibernate", 200, nil, nil)
	a.call("POST", "/api/sessions/{session=acme.web}/heartbeat", 204, nil, nil)
	a.call("GET", web, 200, nil, &s)
	if s.State != schemas.Suspended {
		t.Errorf("a heartbeat has it %s", s.State)
	}
	a.call("GET", "/api/v1/terminal/sessions/hibernated", 200, nil, nil)
	a.call("POST", "/api/v1/terminal/sessions/{session=acme.web}/restore", 200, nil, nil)
}

// everyVerb compares the verbs of the document with those that the API answers.
func (w *world) everyVerb() {
	w.Helper()
	nc, err := natsconn.Connect(w.Context(), w.Secure, w.Data+"/creds/system.nk", "gateway test")
	w.must(err)
	defer nc.Close()
	m, err := nc.Request("$SRV.INFO.diapause", nil, limit)
	w.must(err)
	var info micro.Info
	w.must(json.Unmarshal(m.Data, &info))
	var has, want []string
	for _, e := range info.Endpoints {
		want = append(want, strings.TrimPrefix(e.Subject, schemas.SubjectAPI+"."))
	}
	for _, item := range w.doc.Paths.Map() {
		for _, op := range item.Operations() {
			if verb, ok := op.Extensions["x-diapause-verb"].(string); ok && !slices.Contains(has, verb) {
				has = append(has, verb)
			}
		}
	}
	slices.Sort(has)
	slices.Sort(want)
	if !slices.Equal(has, want) {
		w.Errorf("the document has the verbs\n%v, the API answers\n%v", has, want)
	}
}

// restartWithoutThePort kills the daemon, and starts it while another has its port: it gets ready all the same,
// and takes the port when that is free.
func (w *world) restartWithoutThePort() {
	w.Helper()
	w.must(w.Kill())
	l, err := net.Listen("tcp", w.address)
	w.must(err)
	before := strings.Count(w.Stack.Log(), "\nHTTP API: ")
	w.must(w.Up("--http", w.address))
	w.answers("no HTTP API for now: listen for HTTP: listen tcp " + w.address)
	w.must(l.Close())
	w.until("it listens again", func() bool { return strings.Count(w.Stack.Log(), "\nHTTP API: ") > before })
}

// templates has a template made of the session, and a session from that.
func (a asks) templates() {
	a.Helper()
	const py = "/api/v1/templates/{template=acme.py}"
	var made schemas.TemplateView
	head := a.call("POST", "/api/v1/templates", 201, object{"name": "acme/py", "from": "acme/web"}, &made)
	if made.State != schemas.TemplateReady || made.Origin == nil || made.Origin.Session != "acme/web" || head.Get("Location") != "/api/v1/templates/acme.py" {
		a.Errorf("the template is %+v, at %s", made, head.Get("Location"))
	}
	a.call("POST", "/api/v1/templates", 409, object{"name": "acme/py", "from": "acme/web"}, nil)
	a.call("POST", "/api/v1/templates", 400, object{"name": "other/py", "from": "acme/web"}, nil)
	var all []schemas.TemplateView
	a.call("GET", "/api/v1/templates?tenant=acme", 200, nil, &all)
	if len(all) != 1 || all[0].Name != "acme/py" || all[0].UID != made.UID {
		a.Errorf("templates are %+v", all)
	}
	key := []string{"Idempotency-Key: 8c1b"}
	var s, again session
	a.call("POST", py+"/sessions", 201, object{"name": "acme/third"}, &s, key...)
	a.call("POST", py+"/sessions", 201, object{"name": "acme/third"}, &again, key...)
	if s.State != schemas.Running || s.Boot != schemas.BootFork || s.Origin == nil || s.Origin.Template != "acme/py" || again.UID != s.UID {
		a.Errorf("the session is %+v, then %s", s, again.UID)
	}
	a.call("DELETE", "/api/v1/sessions/{session=acme.third}", 200, nil, &s)
	a.call("DELETE", py, 200, nil, &made)
	if made.State != schemas.TemplateRemoved {
		a.Errorf("removed it is %+v", made)
	}
	a.call("POST", py+"/sessions", 404, object{"name": "acme/third"}, nil)
	a.call("DELETE", py, 404, nil, nil)
}

func (a asks) policies() {
	a.Helper()
	const scope = "/api/v1/policies/{scope=session:acme.web}"
	var v schemas.PolicyView
	tag := a.call("GET", scope, 200, nil, &v).Get("ETag")
	body := object{"policy": object{"grace": "10m"}, "reason": "a test"}
	newer := a.call("PUT", scope, 200, body, &v, "If-Match: "+tag).Get("ETag")
	if newer == tag || v.Policy.Grace == nil {
		a.Errorf("version %s follows %s: %+v", newer, tag, v)
	}
	a.call("PUT", scope, 412, body, nil, "If-Match: "+tag)
	a.call("PUT", scope, 400, object{"policy": object{"grace": "soon"}}, nil)
	a.call("POST", scope+"/test", 200, object{"policy": object{"never": true}}, nil)
	a.call("GET", "/api/v1/policies", 200, nil, nil)
}

// looks asks for what changes nothing, or little.
func (a asks) looks() {
	a.Helper()
	var page struct {
		Sessions []session
		Next     string
	}
	a.call("GET", "/api/v1/sessions?limit=1&tenant=acme", 200, nil, &page)
	if len(page.Sessions) != 1 || page.Next != "acme.twin" {
		a.Errorf("the first page is %+v", page)
	}
	after := page.Next
	page.Next = ""
	a.call("GET", "/api/v1/sessions?limit=1&after="+after, 200, nil, &page)
	if len(page.Sessions) != 1 || page.Sessions[0].Name != "acme/web" || page.Next != "" {
		a.Errorf("the second page is %+v", page)
	}
	a.call("POST", "/api/v1/sessions/{session=acme.web}/activity", 200, object{"kind": "hold", "key": "test", "ttl": "1h", "reason": "a demo"}, nil)
	var e schemas.Explanation
	a.call("GET", "/api/v1/sessions/{session=acme.web}/explain", 200, nil, &e)
	if !slices.ContainsFunc(e.Blockers, func(b schemas.WaitingFor) bool { return strings.Contains(b.What, "a demo") }) {
		a.Errorf("nothing says that it is held: %+v", e)
	}
	a.call("POST", "/api/v1/sessions/{session=acme.web}/activity", 200, object{"kind": "hold", "key": "test", "released": true}, nil)
	var past []schemas.TransitionView
	a.call("GET", "/api/v1/sessions/{session=acme.web}/history", 200, nil, &past)
	if !slices.ContainsFunc(past, func(v schemas.TransitionView) bool {
		return v.Type == schemas.TSuspend && strings.HasPrefix(v.Actor, "token:") && v.Reason == "a test"
	}) {
		a.Errorf("the history doesn't say whose token had it suspended: %+v", past)
	}
	var hosts []schemas.HostView
	a.call("GET", "/api/v1/hosts", 200, nil, &hosts)
	a.call("GET", "/api/v1/hosts/{host="+string(hosts[0].Host.Host)+"}", 200, nil, nil)
	var tokens []schemas.TokenView
	a.call("GET", "/api/v1/tokens", 200, nil, &tokens)
	if len(tokens) != 1 || tokens[0].Used.IsZero() || tokens[0].Token != "" {
		a.Errorf("the tokens are %+v", tokens)
	}
	for _, path := range []string{"/whoami", "/usage?since=24h", "/stats", "/audit", "/keys", "/store/stats"} {
		a.call("GET", "/api/v1"+path, 200, nil, nil)
	}
	a.call("POST", "/api/v1/store/check", 200, nil, nil)
	a.call("POST", "/api/v1/store/prune", 200, object{"dry_run": true}, nil)
	a.call("GET", "/api/v1/sessions?limit=0", http.StatusBadRequest, nil, nil)
}
