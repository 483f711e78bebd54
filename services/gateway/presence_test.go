package gateway

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/diapause/diapause/schemas"
)

const foreign = "Origin: https://blog.example"

// Any page may say that it is visible, with a token that it knows; nothing else, and with nothing that a browser adds.
func TestPresence(t *testing.T) {
	b := newBench(t, nil)
	b.answers("activity", func(a asked) (any, *schemas.APIError) {
		return schemas.View{Name: a.Name, State: schemas.Running}, nil
	})
	const beat = "/api/sessions/acme.web/heartbeat"
	r := b.do("OPTIONS", beat, "", "Authorization: ", foreign, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "*" || r.Header.Get("Access-Control-Allow-Headers") != "Authorization" {
		t.Errorf("a preflight gives %d, %v", r.StatusCode, r.Header)
	}
	r = b.do("POST", beat, "", foreign, "Sec-Fetch-Site: cross-site")
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("a heartbeat gives %d, %v", r.StatusCode, r.Header)
	}
	if r.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("with credentials: %v", r.Header)
	}
	for what, c := range map[string][]string{
		"without a token":           {"POST", beat, "Authorization: "},
		"with a cookie":             {"POST", beat, "Authorization: ", "Cookie: token=dpt_a"},
		"with a password":           {"POST", beat, "Authorization: Basic ZHB0X2E6"},
		"another verb":              {"POST", "/api/v1/sessions/acme.web/ensure"},
		"a path that looks like it": {"POST", "/api/sessions/acme.web/x/heartbeat"},
		"another method":            {"GET", beat},
		"a preflight of another":    {"OPTIONS", beat, "Access-Control-Request-Method: DELETE"},
		"a preflight elsewhere":     {"OPTIONS", "/api/v1/sessions/acme.web/ensure", "Access-Control-Request-Method: POST"},
	} {
		r := b.do(c[0], c[1], "", append(c[2:], foreign)...)
		if allow := r.Header.Get("Access-Control-Allow-Origin"); allow != "" {
			t.Errorf("%s: pages of %s may read the answer", what, allow)
		}
		b.refused(what, r, http.StatusForbidden)
	}
	b.refused("another host", b.do("POST", beat, "", foreign, "Host: blog.example"), http.StatusMisdirectedRequest)
}

func TestPresenceScript(t *testing.T) {
	b := newBench(t, nil)
	r := b.do("GET", presencePath, "", "Authorization: ", "Sec-Fetch-Site: cross-site")
	if r.StatusCode != http.StatusOK || r.Header.Get("Cross-Origin-Resource-Policy") != "cross-origin" || r.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("%d, %v", r.StatusCode, r.Header)
	}
	if n := len(presenceScript); n > 2048 || !bytes.Contains(presenceScript, []byte("credentials: 'omit'")) {
		t.Errorf("it has %d bytes, of 2048 at most", n)
	}
}
