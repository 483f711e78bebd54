package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBrowser logs a real browser in by a link that is good for once, opens the private port of a suspended session in it, and
// asks the API from the page that shows its document.
func TestBrowser(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // make test-long installs a browser
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Fatalf("%v; apt install chromium", err)
	}
	w := newWorld(t)
	self, err := os.Executable()
	w.must(err)
	_, err = w.Must("run", "--name", "web", "--network", "private", "--env", asServer+"=1", "--", self)
	w.must(err)
	_, err = w.Must("suspend", "web")
	w.must(err)
	_, port, _ := strings.Cut(w.address, ":")
	gate := "http://localhost:" + port
	link, err := w.Must("login-link", "--role", "client", "--at", gate)
	w.must(err)
	modules := filepath.Join(cmp.Or(os.Getenv("DIAPAUSE_PREFIX"), "/opt/diapause"), "node", "ingress")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", "testdata/browser.mjs",
		strings.TrimSpace(link), "http://8080--web.default.localhost:"+port+"/", gate+"/api/v1/docs", t.TempDir(), modules).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var at []string
	for line := range strings.Lines(string(out)) {
		var page struct{ At, Shown, Cookies string }
		w.must(json.Unmarshal([]byte(line), &page))
		if page.Cookies != "" || strings.Contains(page.At, "#") {
			t.Errorf("a script sees the cookies %q at %s", page.Cookies, page.At)
		}
		at = append(at, page.At)
	}
	if want := "http://8080--web.default.localhost:" + port + "/"; !slices.Contains(at, want) {
		t.Errorf("it never is at %s: %v", want, at)
	}
}
