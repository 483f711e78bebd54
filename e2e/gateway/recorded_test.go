package gateway

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// Recordings are text for the validation.
func init() {
	for _, media := range []string{"application/x-asciicast", "application/jsonl", "text/html"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
}

// recordings reads what was recorded of a terminal while it runs and while it sleeps: each answer is as the document says.
func (a asks) recordings() {
	a.Helper()
	const term = "/api/v1/sessions/{session=acme.term}"
	script := `printf '\033]633;E;ls\a\033]633;C\a\033[31mout\033[0m\n\033]633;D;0\a'; while sleep 1; do :; done`
	a.call("POST", "/api/v1/sessions", 201, object{"name": "acme/term", "idle": "never", "spec": object{"command": []string{"sh", "-c", script}, "tty": true, "record": "output"}}, nil)
	var list struct{ Commands []schemas.TypedCommand }
	for end := time.Now().Add(limit); len(list.Commands) == 0; time.Sleep(50 * time.Millisecond) {
		if a.call("GET", term+"/commands?limit=5", 200, nil, &list); time.Now().After(end) {
			a.Fatal("no command comes")
		}
	}
	if c := list.Commands[0]; c.Text != "ls" || c.Exit == nil || *c.Exit != 0 {
		a.Errorf("the command is %+v", c)
	}
	a.call("POST", term+"/suspend", 200, nil, nil)
	for path, want := range map[string]string{
		"/commands/{command=1}/output": "out\n", "/commands/{command=1}/output?raw=true": "\x1b[31mout\x1b[0m\r\n",
		"/recording": `"o","`, "/recording?format=text": "out\n", "/recording?format=html": `<span style="color:`, "/recording?format=jsonl": `"code":"o"`,
	} {
		a.call("GET", term+path, 200, nil, nil)
		r := a.send(a.address, "GET", parameter.ReplaceAllString(term+path, "$2"), a.token, "")
		if data, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(data), want) {
			a.Errorf("%s: %q, %v; want %q", path, data, err, want)
		}
	}
	a.call("GET", term+"/commands/{command=9}/output", 404, nil, nil)
	a.searches()
	a.comparesAndImports(term)
	a.call("GET", "/api/v1/sessions/{session=acme.web}/recording", 409, nil, nil)
	var s session
	if a.call("GET", term, 200, nil, &s); s.State != schemas.Suspended {
		a.Errorf("after all was read it is %s", s.State)
	}
	owner := a.world.token("--role", "owner", "--tenant", "acme")
	if r := a.send(a.address, "GET", "/api/v1/sessions/acme.term/recording", owner, ""); r.StatusCode != http.StatusOK {
		a.Errorf("the owner gets %d", r.StatusCode)
	}
	reader := a.world.token("--role", "reader", "--tenant", "acme")
	a.refuses("a reader", a.send(a.address, "GET", "/api/v1/sessions/acme.term/recording", reader, ""), http.StatusForbidden)
	a.archives(term)
	a.call("DELETE", term, 200, nil, nil)
}

// comparesAndImports imports the recording of the session, compares the two, and takes out what it shows.
func (a asks) comparesAndImports(term string) {
	a.Helper()
	body := func(method, path, text string, headers ...string) (int, string) {
		a.Helper()
		r := a.send(a.address, method, path, a.token, text, headers...)
		data, err := io.ReadAll(r.Body)
		a.must(err)
		return r.StatusCode, string(data)
	}
	_, cast := body("GET", "/api/v1/sessions/acme.term/recording", "")
	status, made := body("PUT", "/api/v1/sessions/acme.copy/recording?from=term.cast", cast, "Content-Type: application/x-asciicast")
	if status != http.StatusCreated || !strings.Contains(made, `"imported":"term.cast"`) {
		a.Fatalf("imported: status %d, %s", status, made)
	}
	if status, text := body("PUT", "/api/v1/sessions/acme.none/recording", "no cast"); status != http.StatusUnprocessableEntity || !strings.Contains(text, "import a recording") {
		a.Errorf("what is no asciicast: status %d, %s", status, text)
	}
	for path, want := range map[string]string{
		"/acme.copy/recording?format=text": "out\n", "/acme.copy/diff?with=acme.term": "", "/acme.copy/diff?command=1&with=acme.term&with_command=1": "",
		"/acme.term/logs?tail=1000": "\x1b[31mout\x1b[0m\r\n",
	} {
		if _, text := body("GET", "/api/v1/sessions"+path, ""); want == "" && text != "" || !strings.Contains(text, want) {
			a.Errorf("%s: %q, want %q", path, text, want)
		}
	}
	a.call("GET", "/api/v1/sessions/{session=acme.term}/diff?with=acme.web", 409, nil, nil)
	a.call("GET", "/api/v1/sessions/{session=acme.web}/logs", 200, nil, nil) // which isn't recorded
	var s session
	a.call("PUT", "/api/v1/sessions/{session=acme.copy}/recording", 409, object{}, nil)
	a.call("POST", term+"/redact", 200, object{"match": "out", "dry_run": true}, nil)
	a.call("POST", term+"/redact", 200, object{"match": "out"}, nil)
	if _, text := body("GET", "/api/v1/sessions/acme.term/diff?with=acme.copy", ""); !strings.Contains(text, "+out\n") {
		a.Errorf("after it is taken out the texts differ in %q", text)
	}
	a.call("DELETE", "/api/v1/sessions/{session=acme.copy}", 200, nil, &s)
}

// searches finds what the terminal showed while its session sleeps: each answer is as the document says.
func (a asks) searches() {
	a.Helper()
	for _, path := range []string{"/api/v1/search", "/api/v1/terminal/sessions/search"} {
		for query, want := range map[string]string{"?q=out&in=output": "out", "?q=ls&session=acme.term&exit=0&limit=1": "ls", "?q=%5Eo.t%24&regexp=true&since=1h": "out", "?q=out&tenant=other": ""} {
			var page struct {
				Found    []attach.Found
				Searched int
			}
			a.call("GET", path+query, 200, nil, &page)
			if want == "" && (len(page.Found) > 0 || page.Searched > 0) || want != "" && (len(page.Found) != 1 || page.Found[0].Line != want || page.Found[0].Session != "acme/term") {
				a.Errorf("%s%s finds %+v", path, query, page)
			}
		}
		a.call("GET", path+"?q=x&regexp=true", 400, nil, nil)
		owner, reader, other := a.world.token("--role", "owner", "--tenant", "acme"), a.world.token("--role", "reader", "--tenant", "acme"), a.world.token("--role", "owner", "--tenant", "b")
		for token, status := range map[string]int{owner: http.StatusOK, reader: http.StatusForbidden, other: http.StatusForbidden} {
			if r := a.send(a.address, "GET", path+"?q=out&tenant=acme", token, ""); r.StatusCode != status {
				a.Errorf("%s: status %d, want %d", path, r.StatusCode, status)
			}
		}
		r := a.send(a.address, "GET", path+"?q=out", other, "")
		if data, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK || strings.Contains(string(data), "acme") {
			a.Errorf("the owner of another tenant finds %s, %v", data, err)
		}
	}
}
