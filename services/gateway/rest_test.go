package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
	"github.com/diapause/diapause/schemas/dockerspec"
)

// recorded has a verb answered with out, and gives what was asked last.
func (b *bench) recorded(verb string, out any) func() asked {
	got := make(chan asked, 1)
	b.answers(verb, func(a asked) (any, *schemas.APIError) {
		got <- a
		return out, nil
	})
	return func() asked {
		b.Helper()
		select {
		case a := <-got:
			return a
		case <-time.After(limit):
			b.Fatalf("%s wasn't asked for", verb)
			return asked{}
		}
	}
}

func TestRequestsAreForwarded(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	view := schemas.View{Name: "acme/web", State: schemas.Running}
	last := b.recorded("run", view)
	r := b.do("POST", "/api/v1/sessions?wait=30s", `{"name":"acme/web","idle":"7d","spec":{"command":["sh","-c","x"],"tty":true}}`, "Idempotency-Key: k 1", "Traceparent: "+trace)
	a := last()
	if r.StatusCode != http.StatusCreated || r.Header.Get("Location") != "/api/v1/sessions/acme.web" {
		t.Errorf("status %d, at %s", r.StatusCode, r.Header.Get("Location"))
	}
	if a.token != "dpt_a" || a.trace != trace || a.Name != "acme/web" || a.Once != "k 1" || a.Wait != schemas.Duration(30*time.Second) || !strings.HasPrefix(a.Actor, "http:127.0.0.1") {
		t.Errorf("asked %+v", a)
	}
	var spec schemas.Spec
	if err := json.Unmarshal(a.Run.Spec, &spec); err != nil || !reflect.DeepEqual(spec, schemas.Spec{Command: []string{"sh", "-c", "x"}, TTY: true, Env: []string{usualPath}}) {
		t.Errorf("the spec is %s: %v", a.Run.Spec, err)
	}
	if a.Run.Program != "sh" || !a.Run.TTY || a.Run.Idle.Grace != (7*24*time.Hour).Milliseconds() {
		t.Errorf("run is %+v", a.Run)
	}
	if got := read[Session](b, r); got.Name != "acme/web" || !got.Capabilities.Memory || got.PausedAt != nil {
		t.Errorf("the answer is %+v", got)
	}

	b.do("POST", "/api/v1/sessions", `{"name":"web","idle":"never","spec":{"docker":{"image":"alpine:3"}}}`)
	a = last()
	if o, ok, err := dockerOf(a.Run.Spec); err != nil || !ok || o.Image != "alpine:3" || a.Run.Driver != dockerspec.Driver || a.Run.Program != "alpine:3" || !a.Run.Idle.Never {
		t.Errorf("a container: %+v, %+v, %v", a.Run, o, err)
	}
	for _, wrong := range []string{`{"name":"web"}`, `{"spec":{"command":["sh"]}}`, `{"name":"web","idle":"soon","spec":{"command":["sh"]}}`, `{"name":"web","spec":{"command":["sh"],"docker":{"image":1}}}`} {
		b.refused(wrong, b.do("POST", "/api/v1/sessions", wrong), http.StatusBadRequest)
	}
	b.refused("a long key", b.do("POST", "/api/v1/sessions", `{"name":"web","spec":{"command":["sh"]}}`, "Idempotency-Key: "+strings.Repeat("k", 256)), http.StatusBadRequest)
	b.refused("a bad wait", b.do("GET", "/api/v1/sessions/web?wait=soon", ""), http.StatusBadRequest)
}

func dockerOf(data []byte) (o dockerspec.Options, ok bool, err error) {
	var spec schemas.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return o, false, err
	}
	return dockerspec.Of(spec)
}

func TestNamesInPaths(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	last := b.recorded("show", schemas.View{})
	for path, want := range map[string]string{"web": "web", "acme.web": "acme/web", "acme%2Fweb": "acme/web", "a.b.c": "a/b.c", "%2e%2e%2Fx": "/./x"} {
		b.do("GET", "/api/v1/sessions/"+path, "")
		if got := last().Name; got != want { // the API refuses what is no name
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if got := (OfSession{Session: inPath("acme/web")}).name(); got != "acme/web" {
		t.Errorf("acme/web comes back as %s", got)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	views := []schemas.View{
		{Name: "acme/a", State: schemas.Suspended, Driver: dockerspec.Driver, Pause: &schemas.Pause{Reason: schemas.PauseInactivity, At: at}},
		{Name: "acme/b", State: schemas.Running, Status: "unhealthy", Driver: adoptspec.Driver}, {Name: "c"},
	}
	last := b.recorded("list", views)
	p := read[Page](b, b.do("GET", "/api/v1/sessions?limit=2&state=suspended,running&tenant=acme&class=web&host=h&after=acme.0", ""))
	want := &schemas.ListRequest{States: []schemas.State{schemas.Suspended, schemas.Running}, Class: "web", Host: "h", Limit: 3, After: "acme/0"}
	if a := last(); a.Tenant != "acme" || !reflect.DeepEqual(a.List, want) {
		t.Errorf("asked for %+v of %q", a.List, a.Tenant)
	}
	if len(p.Sessions) != 2 || p.Next != "acme.b" {
		t.Fatalf("the page is %+v", p)
	}
	if s := p.Sessions[0]; s.Status != "paused" || !s.PausedAt.Equal(at) || s.PauseReason != schemas.PauseInactivity || s.Capabilities != (Capabilities{Pause: true, Fork: true}) {
		t.Errorf("a suspended session is %+v", s)
	}
	if s := p.Sessions[1]; s.Status != "unhealthy" || s.PausedAt != nil || s.PauseReason != "" || s.Capabilities != (Capabilities{Memory: true, Pause: true}) {
		t.Errorf("a running session is %+v", s)
	}
	if p := read[Page](b, b.do("GET", "/api/v1/sessions?limit=3", "")); len(p.Sessions) != 3 || p.Next != "" {
		t.Errorf("the last page is %+v", p)
	}
	last()
	for _, wrong := range []string{"limit=0", "limit=401", "limit=x", "state=asleep"} {
		b.refused(wrong, b.do("GET", "/api/v1/sessions?"+wrong, ""), http.StatusBadRequest)
	}
}

func TestPoliciesHaveVersions(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.answers("policy_set", func(a asked) (any, *schemas.APIError) {
		if a.Policy.Version != nil && *a.Policy.Version != 3 {
			return nil, schemas.StateError(schemas.ReasonConflict, "it has version 3")
		}
		if a.Policy.Scope != "session:acme/web" || a.Reason != "why" {
			return nil, schemas.UsageError("asked for %+v, %s", a.Policy, a.Reason)
		}
		return schemas.PolicyView{Scope: "session:acme/web", Version: 4, Policy: *a.Policy.Policy}, nil
	})
	const path, body = "/api/v1/policies/session:acme.web", `{"policy":{"grace":"30s"},"reason":"why"}`
	for match, want := range map[string]int{"": 200, `"3"`: 200, "*": 200, `"2"`: 412, "3": 400, `W/"3"`: 400, `"3", "4"`: 400} {
		r := b.do("PUT", path, body, "If-Match: "+match)
		if r.StatusCode != want {
			t.Errorf("If-Match %s: status %d, want %d: %+v", match, r.StatusCode, want, read[Problem](b, r))
		}
		if want == 200 && r.Header.Get("ETag") != `"4"` {
			t.Errorf("If-Match %s: the ETag is %s", match, r.Header.Get("ETag"))
		}
	}
	b.refused("a part that there isn't", b.do("PUT", path, `{"policy":{"grce":"30s"}}`), http.StatusBadRequest)
	b.answers("policy_get", func(a asked) (any, *schemas.APIError) {
		return []schemas.PolicyView{{Scope: schemas.PolicyScope(a.Policy.Scope), Version: 7}}, nil
	})
	if r := b.do("GET", "/api/v1/policies/class:web", ""); r.Header.Get("ETag") != `"7"` || read[schemas.PolicyView](b, r).Scope != "class:web" {
		t.Errorf("the policy of a class: %+v", r.Header)
	}
}

// If-None-Match replaces nothing.
func TestPolicyThatIsNew(t *testing.T) {
	b := newBench(t, nil)
	b.answers("policy_set", func(a asked) (any, *schemas.APIError) {
		if a.Policy.Absent {
			return nil, schemas.StateError(schemas.ReasonConflict, "there is one")
		}
		return schemas.PolicyView{Scope: "class:web", Version: 1}, nil
	})
	const path, body = "/api/v1/policies/class:web", `{"policy":{"grace":"30s"}}`
	b.refused("a policy that there is", b.do("PUT", path, body, "If-None-Match: *"), http.StatusPreconditionFailed)
	b.refused("the ETag of one", b.do("PUT", path, body, `If-None-Match: "3"`), http.StatusBadRequest)
	if r := b.do("PUT", path, body); r.StatusCode != http.StatusOK {
		t.Errorf("without it: status %d", r.StatusCode)
	}
}

func TestLabelsArePatched(t *testing.T) {
	b := newBench(t, nil)
	last := b.recorded("label", schemas.View{Name: "acme/web", Labels: map[string]string{"team": "x"}})
	r := b.do("PATCH", "/api/v1/sessions/acme.web/labels", `{"labels":{"team":"x"},"remove":["old"]}`)
	if got := read[Session](b, r); r.StatusCode != http.StatusOK || got.Labels["team"] != "x" {
		t.Errorf("status %d, %+v", r.StatusCode, got)
	}
	if a := last(); a.Name != "acme/web" || a.Label.Labels["team"] != "x" || !slices.Equal(a.Label.Remove, []string{"old"}) {
		t.Errorf("asked %+v", a.Label)
	}
	r = b.do("POST", "/api/v1/sessions/acme.web/labels", `{}`)
	if b.refused("another method", r, http.StatusMethodNotAllowed); r.Header.Get("Allow") != "PATCH" {
		t.Errorf("allowed is %q", r.Header.Get("Allow"))
	}
}

// A key is kept, or the request is refused: it is never passed over.
func TestIdempotencyKeysAreNeverIgnored(t *testing.T) {
	b := newBench(t, nil)
	keeps := []string{"run", "fork", "template_run"}
	for path, item := range b.gate.doc.OpenAPI().Paths {
		for method, op := range operations(item) {
			if method != "POST" && method != "PATCH" || path == prefix+"/login" {
				continue
			}
			if slices.Contains(keeps, op.OperationID) {
				if !slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.Name == keyHeader }) {
					t.Errorf("%s takes no key", op.OperationID)
				}
				continue
			}
			target := regexp.MustCompile(`{[a-z]+}`).ReplaceAllString(path, "1")
			if p := b.refused(op.OperationID, b.do(method, target, `{}`, keyHeader+": k"), http.StatusBadRequest); !strings.Contains(p.Detail, keyHeader) {
				t.Errorf("%s: %+v", op.OperationID, p)
			}
		}
	}
}

// The bodies are those that earlier designs promise.
func TestPathsOfEarlierDesigns(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	view := schemas.View{Name: "acme/web", State: schemas.Suspended, Snapshot: &schemas.SnapshotView{StoredBytes: 12_345_678}}
	suspends, ensures := b.recorded("suspend", view), b.recorded("ensure", view)
	for _, c := range []struct {
		method, path, body string
		asked              func() asked
	}{
		{"POST", "/sessions/acme.web/suspend", `{"status":"suspended","snapshot_size_mb":12.346}`, suspends},
		{"POST", "/sessions/acme.web/restore", `{"status":"restored"}`, ensures},
		{"POST", "/api/v1/terminal/sessions/acme.web/hibernate", `{"status":"suspended","snapshot_size_mb":12.346}`, suspends},
		{"GET", "/api/v1/terminal/sessions/acme.web/hibernate", `{"status":"suspended","snapshot_size_mb":12.346}`, suspends},
		{"POST", "/api/v1/terminal/sessions/acme.web/restore", `{"status":"restored"}`, ensures},
		{"GET", "/api/v1/terminal/sessions/acme.web/restore", `{"status":"restored"}`, ensures},
	} {
		r := b.do(c.method, c.path, "")
		if got := string(read[json.RawMessage](b, r)); r.StatusCode != http.StatusOK || got != c.body {
			t.Errorf("%s %s: status %d, %s", c.method, c.path, r.StatusCode, got)
		}
		if got := c.asked(); got.Name != "acme/web" {
			t.Errorf("%s %s: asked for %q", c.method, c.path, got.Name)
		}
		if warned := r.Header.Get("Warning") != ""; warned != (c.method == "GET") {
			t.Errorf("%s %s: the warning is %q", c.method, c.path, r.Header.Get("Warning"))
		}
	}
	beats := b.recorded("activity", view)
	r := b.do("POST", "/api/sessions/acme.web/heartbeat", "")
	if a := beats(); r.StatusCode != http.StatusNoContent || r.ContentLength > 0 || a.Activity.Kind != schemas.KindHeartbeat {
		t.Errorf("a heartbeat: status %d, asked %+v", r.StatusCode, a.Activity)
	}
	lists := b.recorded("list", []schemas.View{view})
	b.do("GET", "/api/v1/terminal/sessions/hibernated", "")
	if a := lists(); a.List.Class != "terminal" || !slices.Equal(a.List.States, []schemas.State{schemas.Suspended}) {
		t.Errorf("the hibernated: asked %+v", a.List)
	}
}

// A desktop is restored with the port of its host, if it has one.
func TestRestoreOfDesktop(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.answers("ensure", func(a asked) (any, *schemas.APIError) {
		d := &schemas.DesktopView{Desktop: schemas.Desktop{Size: schemas.DesktopSize, Port: schemas.DesktopVNC}}
		if a.Name == "acme/desk" {
			d.VNCPort = 27888
		}
		return schemas.View{Name: a.Name, State: schemas.Running, Desktop: d}, nil
	})
	for session, want := range map[string]string{"acme.desk": `{"status":"restored","vnc_port":27888}`, "acme.closed": `{"status":"restored"}`} {
		for _, path := range []string{"/sessions/" + session, "/api/v1/terminal/sessions/" + session} {
			r := b.do("POST", path+"/restore", "")
			if got := string(read[json.RawMessage](b, r)); r.StatusCode != http.StatusOK || got != want {
				t.Errorf("%s: status %d, %s; want %s", path, r.StatusCode, got, want)
			}
		}
	}
}

func TestWithoutAnAPI(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	if p := b.refused("no API", b.do("GET", "/api/v1/whoami", ""), http.StatusServiceUnavailable); p.Reason != schemas.ReasonNoServer {
		t.Errorf("no API: %+v", p)
	}
	for end := time.Now().Add(limit); b.gate.Answered()["5xx"] != 1; time.Sleep(time.Millisecond) { // it counts after the answer
		if time.Now().After(end) {
			t.Fatalf("counted are %v", b.gate.Answered())
		}
	}
	if got := b.gate.Answered(); got["2xx"] != 0 || b.gate.Streams() != 0 {
		t.Errorf("counted are %v, %d streams", got, b.gate.Streams())
	}
	b.gate.nc.Close()
	r := b.do("GET", "/api/v1/whoami", "")
	if b.refused("no NATS", r, http.StatusServiceUnavailable); r.Header.Get("Retry-After") == "" {
		t.Error("no NATS: nothing says when to ask again")
	}
}

// No token is logged, nor in any answer that isn't to say it.
func TestTokensAreNotTold(t *testing.T) {
	t.Parallel()
	var log lockedText
	b := newBench(t, func(o *Options) { o.Log = logTo(&log) })
	b.isOf(nil)
	for _, path := range []string{"/api/v1/whoami", "/api/v1/sessions", "/api/v1/events", "/api/v1/sessions?state=dpt_hidden", "/api/v1/events?after=x"} {
		r := b.do("GET", path, "", "Authorization: Bearer dpt_hidden")
		body := fmt.Sprint(r.Header) + string(read[json.RawMessage](b, r))
		if strings.Contains(body, "hidden") && !strings.Contains(path, "hidden") {
			t.Errorf("%s: the answer has the token: %s", path, body)
		}
	}
	if text := log.String(); strings.Contains(text, "hidden") || !strings.Contains(text, "path=/api/v1/whoami status=401") {
		t.Errorf("the log is %s", text)
	}
}

// The page loads nothing from elsewhere, and is allowed nothing else.
func TestPageLoadsNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, path := range []string{"/api/v1/docs", "/api/v1/docs/page.js", "/api/v1/docs/page.css"} {
		r := b.do("GET", path, "")
		if r.Header.Get("Content-Security-Policy") != pagePolicy {
			t.Errorf("%s: the policy is %s", path, r.Header.Get("Content-Security-Policy"))
		}
		var text strings.Builder
		if _, err := fmt.Fprint(&text, readAll(b, r)); err != nil {
			t.Fatal(err)
		}
		if elsewhere := regexp.MustCompile(`https?://|//[a-z]+\.|@import|innerHTML`).FindString(text.String()); elsewhere != "" {
			t.Errorf("%s has %s", path, elsewhere)
		}
	}
}

// Every operation says which verb it is, and has a name of its own.
func TestDocument(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	doc := b.gate.doc.OpenAPI()
	if doc.OpenAPI != "3.1.0" || len(doc.Paths) < 40 {
		t.Errorf("version %s, %d paths", doc.OpenAPI, len(doc.Paths))
	}
	seen := map[string]bool{}
	for path, item := range doc.Paths {
		for method, op := range operations(item) {
			if seen[op.OperationID] || op.Summary == "" || op.Responses["default"] == nil {
				t.Errorf("%s %s: %s has %q, %v", method, path, op.OperationID, op.Summary, op.Responses)
			}
			seen[op.OperationID] = true
			if verb, _ := op.Extensions["x-diapause-verb"].(string); verb == "" && !slices.Contains([]string{"events", "watch", "attach", "desktop", "commands", "output", "recording", "desktopPicture", "transitions", "search", "terminal_search", "wait", "exec", "screen", "files_get", "files_put", "diff", "logs", "import"}, op.OperationID) {
				t.Errorf("%s %s is no verb", method, path)
			}
		}
	}
}
