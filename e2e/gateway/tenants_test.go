package gateway

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/diapause/diapause/schemas"
)

// bodies are what operations are asked with that take a body with something in it: about the session of the
// other tenant.
var bodies = map[string]string{
	"run":             `{"name":"b/secret","spec":{"command":["sh"],"root":"oci:alpine:3"}}`,
	"fork":            `{"to":"b/twin"}`,
	"rollback":        `{"snapshot":"1-5"}`,
	"expose":          `{"access":"public"}`,
	"label":           `{"labels":{"a":"b"}}`,
	"share":           `{"for":"1h"}`,
	"template_create": `{"name":"b/t","from":"b/secret"}`,
	"template_run":    `{"name":"b/new"}`,
	"redact":          `{"match":"x"}`,
	"login":           `{"code":"x"}`,
	"login_port":      `{"host":"8080--secret.b.localhost","state":"x"}`,
	"activity":        `{"kind":"input"}`,
	"policy_set":      `{"policy":{"grace":"1s"}}`,
	"policy_test":     `{"policy":{"grace":"1s"}}`,
	"policy_simulate": `{"policy":{"grace":"1s"}}`,
	"ingress_add":     `{"session":"b/secret","port":22,"listen":":2222"}`,
	"token_create":    `{"role":"owner","tenant":"b","for":"1h"}`,
	"exec":            `{"command":["id"]}`,
}

// mine are the operations that are about the bearer's own, whichever that is.
var mine = map[string]bool{"whoami": true, "login": true, "list": true, "template_ls": true, "usage": true, "terminal_hibernated": true, "events": true, "watch": true, "transitions": true, "search": true, "terminal_search": true}

// TestTokensOfAnotherTenant tries tokens of tenant a, and of one session of tenant b, on every path of the document with
// the session b/secret of tenant b.
func TestTokensOfAnotherTenant(t *testing.T) {
	w := newWorld(t)
	operator := asks{w, w.address, w.token("--role", "operator")}
	operator.call("POST", "/api/v1/sessions", 201, counting("b/secret"), nil)
	operator.call("POST", "/api/v1/sessions", 201, counting("b/other"), nil)
	var before, after session
	operator.call("GET", "/api/v1/sessions/{session=b.secret}", 200, nil, &before)
	tokens := map[string]string{}
	for _, role := range schemas.TokenRoles() {
		if role != schemas.TokenOperator {
			tokens[string(role)+" of a"] = w.token("--role", string(role), "--tenant", "a")
			tokens[string(role)+" of b/other"] = w.token("--role", string(role), "--tenant", "b", "--session", "other")
		}
	}
	tried := 0
	for path, item := range w.doc.Paths.Map() {
		for method, op := range item.Operations() {
			for who, token := range tokens {
				w.tryAs(who, token, method, path, op)
				tried++
			}
			w.refuses("no token", w.send(w.address, method, filled(path), "", bodyOf(op)), http.StatusUnauthorized)
		}
	}
	if tried < 400 {
		t.Errorf("only %d requests were tried", tried)
	}
	operator.call("GET", "/api/v1/sessions/{session=b.secret}", 200, nil, &after)
	if after.Version != before.Version || after.UID != before.UID || after.IdleSeconds < before.IdleSeconds {
		t.Errorf("the session was %+v, and is %+v", before, after)
	}
	w.ownersAreConfined()
}

func verbOf(op *openapi3.Operation) string {
	verb, _ := op.Extensions["x-diapause-verb"].(string)
	return verb
}

// bodyOf is what an operation is asked with.
func bodyOf(op *openapi3.Operation) string { return cmp.Or(bodies[verbOf(op)], bodies[op.OperationID]) }

var inPath = regexp.MustCompile(`\{(\w+)\}`)

// filled is a path with the session of the other tenant in it.
func filled(path string) string {
	return inPath.ReplaceAllStringFunc(path, func(p string) string {
		switch p {
		case "{session}", "{template}":
			return "b.secret"
		case "{scope}":
			return "session:b.secret"
		case "{port}":
			return "8080"
		case "{command}":
			return "1"
		}
		return "x"
	})
}

// tryAs asks for an operation with a token that isn't for the session.
func (w *world) tryAs(who, token, method, path string, op *openapi3.Operation) {
	w.Helper()
	what := fmt.Sprintf("%s asks for %s %s", who, method, path)
	if mine[op.OperationID] {
		for _, query := range []string{"?tenant=b&session=secret", "?tenant=b", "?after=0", "?q=secret", "?q=secret&tenant=b&session=secret", ""} {
			if op.OperationID == "whoami" && query != "" || op.OperationID == "events" && query == "" || op.OperationID == "watch" && query != "?tenant=b" || !takes(op, query) {
				continue // streams would wait for what happens
			}
			w.tellsNothing(what+query, w.sendBriefly(method, path+query, token))
		}
		return
	}
	w.refuses(what, w.send(w.address, method, filled(path), token, bodyOf(op)), http.StatusForbidden)
}

// takes reports whether an operation has the parameters of a query.
func takes(op *openapi3.Operation, query string) bool {
	for _, p := range strings.FieldsFunc(query, func(r rune) bool { return r == '?' || r == '&' }) {
		name, _, _ := strings.Cut(p, "=")
		if op.Parameters.GetByInAndName("query", name) == nil {
			return false
		}
	}
	return true
}

// sendBriefly gives all of an answer, of a stream what comes at once.
func (w *world) sendBriefly(method, path, token string) string {
	w.Helper()
	r := w.send(w.address, method, path, token, "")
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		data, err := io.ReadAll(r.Body)
		w.must(err)
		return string(data)
	}
	var text strings.Builder
	buffer := make([]byte, 1<<16)
	// The place in the log comes first. What there is for b/other comes then, in the order of the log: its
	// last transition so far is that it runs.
	// A watch has no places, and shows b/other first.
	for !strings.Contains(text.String(), "id: ") && !strings.Contains(text.String(), "event: session\n") || strings.Contains(text.String(), `"name":"b/other"`) && !strings.Contains(text.String(), `"type":"started"`) {
		n, err := r.Body.Read(buffer)
		text.Write(buffer[:n])
		w.must(err)
	}
	return text.String()
}

func (w *world) tellsNothing(what, answer string) {
	w.Helper()
	if strings.Contains(answer, "b/secret") {
		w.Errorf("%s, and learns %s", what, answer)
	}
}

// refuses checks that an answer is a refusal, which tells nothing of the session.
func (w *world) refuses(what string, r *http.Response, status int) {
	w.Helper()
	data, err := io.ReadAll(r.Body)
	w.must(err)
	if r.StatusCode != status || r.Header.Get("Content-Type") != "application/problem+json" {
		w.Errorf("%s: status %d, want %d: %s", what, r.StatusCode, status, data)
	}
	for _, told := range []string{"running", `"uid"`, "suspended"} {
		if strings.Contains(string(data), told) {
			w.Errorf("%s: the refusal tells %s", what, data)
		}
	}
}

// ownersAreConfined asks for what reaches the host with the token of the owner of a tenant.
func (w *world) ownersAreConfined() {
	w.Helper()
	owner := asks{w, w.address, w.token("--role", "owner", "--tenant", "b")}
	for _, spec := range []object{
		{"command": []string{"sh"}}, {"command": []string{"sh"}, "root": "/"}, {"command": []string{"sh"}, "root": "oci:alpine:3", "network": "host"},
		{"command": []string{"sh"}, "root": "oci:alpine:3", "cap_add": []string{"SYS_ADMIN"}}, {"docker": object{"container": "theirs"}},
		{"docker": object{"image": "alpine", "volumes": []string{"/:/host"}}},
	} {
		var p problem
		owner.call("POST", "/api/v1/sessions", 403, object{"name": "b/new", "spec": spec}, &p)
		if p.Reason != schemas.ReasonDenied || p.Hint == "" {
			w.Errorf("%v: %+v", spec, p)
		}
	}
	owner.call("POST", "/api/v1/sessions/{session=b.other}/fork", 403, object{"to": "b/new", "publish": []string{"80:80"}}, nil)
	owner.call("POST", "/api/v1/sessions/{session=b.other}/suspend", 200, nil, nil)
	owner.call("DELETE", "/api/v1/sessions/{session=b.other}", 200, nil, nil)
}
