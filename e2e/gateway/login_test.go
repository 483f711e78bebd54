package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// curl asks as a person would, at names that lead to the gateway, and gives the status and all that came.
func (w *world) curl(url string, args ...string) (status, answer string) {
	w.Helper()
	_, port, _ := strings.Cut(w.address, ":")
	all := append([]string{"-sS", "-i", "--max-time", "120", "--connect-to", "::127.0.0.1:" + port, "-w", "\n%{http_code}", url}, args...)
	out, err := exec.Command("curl", all...).CombinedOutput()
	if err != nil {
		w.Fatalf("curl %s: %v\n%s", url, err, out)
	}
	text := string(out)
	cut := strings.LastIndex(text, "\n")
	return text[cut+1:], text[:cut]
}

func header(answer, name string) string {
	for line := range strings.Lines(answer) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(key, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestPortsByCurl reaches a port of a session as its owner, as another tenant, by a browser's login, and as anyone.
func TestPortsByCurl(t *testing.T) {
	w := newWorld(t)
	self, err := os.Executable()
	w.must(err)
	_, err = w.Must("run", "--name", "web", "--network", "private", "--env", asServer+"=1", "--", self)
	w.must(err)
	_, port, _ := strings.Cut(w.address, ":")
	at, gate := "http://8080--web.default.localhost:"+port, "http://localhost:"+port
	must := func(want, url string, args ...string) string {
		t.Helper()
		status, answer := w.curl(url, args...)
		if status != want {
			t.Fatalf("curl %s: status %s, want %s\n%s\n%s", url, status, want, answer, w.Stack.Log())
		}
		return answer
	}
	mine, other := "Authorization: Bearer "+w.token("--role", "client"), "Authorization: Bearer "+w.token("--role", "owner", "--tenant", "acme")
	_, err = w.Must("suspend", "web")
	w.must(err)
	must("401", at+"/")
	must("403", at+"/", "-H", other)
	must("403", gate+"/s/default/web/8080/", "-H", other)
	must("403", gate+"/api/v1/sessions/web/ports/8080", "-X", "PUT", "-H", other, "-H", "Content-Type: application/json", "-d", `{"access":"public"}`)
	if v, err := w.View("web"); err != nil || v.State != "suspended" {
		t.Fatalf("who may not has it %s, %v", v.State, err)
	}
	if answer := must("200", at+"/", "-H", mine); !strings.HasSuffix(answer, "hello") {
		t.Errorf("the owner gets %s", answer)
	}
	jar := t.TempDir() + "/jar"
	out, err := w.Must("login-link", "--role", "client", "--at", gate)
	w.must(err)
	_, code, _ := strings.Cut(strings.TrimSpace(out), "#code=")
	answer := must("200", gate+"/api/v1/login", "-c", jar, "-H", "Content-Type: application/json", "-d", `{"code":"`+code+`"}`)
	var login struct{ Page string }
	w.must(json.Unmarshal([]byte(answer[strings.Index(answer, "{"):]), &login))
	must("401", gate+"/api/v1/login", "-H", "Content-Type: application/json", "-d", `{"code":"`+code+`"}`)
	must("401", gate+"/api/v1/whoami", "-b", jar)
	to := header(must("303", at+"/", "-b", jar, "-c", jar, "-H", "Accept: text/html"), "Location")
	_, state, _ := strings.Cut(to, "state=")
	answer = must("200", gate+"/api/v1/login/port", "-b", jar, "-H", "Diapause-Page: "+login.Page, "-H", "Content-Type: application/json",
		"-d", `{"host":"8080--web.default.localhost","state":"`+state+`"}`)
	var sent struct{ To string }
	w.must(json.Unmarshal([]byte(answer[strings.Index(answer, "{"):]), &sent))
	must("303", sent.To, "-b", jar, "-c", jar)
	if answer := must("200", at+"/", "-b", jar); !strings.HasSuffix(answer, "hello") {
		t.Errorf("the browser gets %s", answer)
	}
	_, err = w.Must("expose", "web", "8080", "--public")
	w.must(err)
	must("200", at+"/")
	if log := w.Stack.Log(); strings.Contains(log, "dpt_") {
		t.Error("a token is told")
	}
	r := w.send(w.address, "GET", "/s/default/web/8080/", strings.TrimPrefix(mine, "Authorization: Bearer "), "")
	data, err := io.ReadAll(r.Body)
	w.must(err)
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Security-Policy") != "sandbox" || string(data) != "hello" {
		t.Errorf("by the path: %d, %v, %s", r.StatusCode, r.Header, data)
	}
}
