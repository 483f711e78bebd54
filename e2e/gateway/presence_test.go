package gateway

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// page runs the script in a page that is hidden first, then seen twice, and prints what its requests give. It ends by itself
// when the script has given up.
const page = `
const [base, session, token] = process.argv.slice(1);
const listeners = new Set(), ask = fetch, asked = [];
globalThis.document = {
  currentScript: { src: base + '/presence.js', dataset: { session, token } }, visibilityState: 'hidden',
  addEventListener: (_, f) => listeners.add(f), removeEventListener: (_, f) => listeners.delete(f),
};
globalThis.fetch = (url, o) => { const a = ask(url, o); asked.push(a); return a; };
(async () => {
  (0, eval)(await (await ask(base + '/presence.js')).text());
  const show = () => listeners.forEach(f => f());
  show();
  const hidden = asked.length;
  document.visibilityState = 'visible';
  show(); show();
  const answer = await asked[0];
  console.log(hidden, asked.length, answer.status, document.currentScript.dataset.token === undefined);
  if (answer.status === 204) process.exit();
})();
`

// ownPage runs the script as a page has it that a session serves, and prints what it asks.
const ownPage = `
const [base] = process.argv.slice(1);
globalThis.document = {
  currentScript: { src: 'http://8080--web.default.localhost:4280/.well-known/diapause/presence.js', dataset: {} }, visibilityState: 'visible',
  addEventListener: () => {}, removeEventListener: () => {},
};
(async () => {
  const script = await (await fetch(base + '/presence.js')).text();
  globalThis.fetch = async (url, o) => { console.log(String(url), o.method, JSON.stringify(o.headers), o.credentials); process.exit(); };
  (0, eval)(script);
})();
`

// TestPresence has a page say that it is visible, with a token that may do nothing else.
func TestPresence(t *testing.T) {
	w := newWorld(t)
	_, err := w.Must("run", "--name", "acme/web", "--idle", "1h", "--", "sleep", "1000")
	w.must(err)
	token := w.token("--role", "publisher", "--tenant", "acme", "--session", "web")
	show := func(session, token string) string {
		out, err := exec.CommandContext(t.Context(), "node", "-e", page, "http://"+w.address, session, token).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := show("acme.web", token); got != "0 1 204 true" {
		t.Errorf("the page asks and gets %q", got)
	}
	text, err := w.Must("explain", "--json", "acme/web")
	w.must(err)
	var e schemas.Explanation
	w.must(json.Unmarshal([]byte(text), &e))
	if e.LastUse != string(schemas.KindHeartbeat) {
		t.Errorf("it was used last by %q", e.LastUse)
	}
	if got := show("acme.other", token); !strings.HasPrefix(got, "0 1 40") {
		t.Errorf("of another session it gets %q", got)
	}
	if got := show("acme.web", token+"x"); got != "0 1 401 true" {
		t.Errorf("with another token it gets %q", got)
	}
	out, err := exec.CommandContext(t.Context(), "node", "-e", ownPage, "http://"+w.address).CombinedOutput()
	w.must(err)
	if got := strings.TrimSpace(string(out)); got != `http://8080--web.default.localhost:4280/.well-known/diapause/heartbeat POST {"Diapause-Presence":"visible"} same-origin` {
		t.Errorf("on a page of a session it asks %s", got)
	}
	_, err = w.Must("suspend", "acme/web")
	w.must(err)
	if got := show("acme.web", token); got != "0 1 204 true" {
		t.Errorf("of a suspended session it gets %q", got)
	}
	if v, err := w.View("acme/web"); err != nil || v.State != schemas.Suspended {
		t.Errorf("a heartbeat leaves it %s, %v", v.State, err)
	}
}
