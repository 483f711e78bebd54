package permissions

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway"
	"github.com/diapause/diapause/services/run"
)

// firstLine gives the first thing that a process says.
type firstLine struct {
	to   io.Writer
	once sync.Once
	line chan string
}

func (f *firstLine) Write(p []byte) (int, error) {
	f.once.Do(func() { f.line <- string(p) })
	return f.to.Write(p)
}

// The gateway is a user that may do no more than it needs: for all else it has the tokens of those who ask.
func TestGatewayHasWhatItNeeds(t *testing.T) {
	w := runParts(t, newFleet(t))
	process, ready := w.process()
	said := &firstLine{to: process.Out, line: make(chan string, 1)}
	process.Out = said
	w.run([]func(context.Context) error{func(ctx context.Context) error {
		return run.Gateway(ctx, run.GatewayConfig{Process: process, NATS: run.NATS{URL: w.url, Creds: w.creds("gateway")}, Listen: gateway.ListenOptions{Address: "127.0.0.1:0"}})
	}}, ready)
	url := strings.Trim(strings.Fields(<-said.line)[2], ",") // ready: gateway URL,
	var token schemas.TokenView
	w.must(json.Unmarshal(w.ask("token_create", schemas.Request{Token: &schemas.TokenRequest{Role: schemas.TokenOperator, For: schemas.MaxToken}}), &token))
	send := func(method, path, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		w.must(err)
		r.Header.Set("Authorization", "Bearer "+token.Token)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		w.must(err)
		t.Cleanup(func() { _ = answer.Body.Close() })
		if answer.StatusCode/100 != 2 {
			var p gateway.Problem
			_ = json.NewDecoder(answer.Body).Decode(&p)
			t.Fatalf("%s %s: %+v", method, path, p)
		}
		return answer
	}
	send("POST", "/sessions", `{"name":"acme/web","driver":"fake","spec":{"command":["count"]}}`)
	for path, want := range map[string]string{"/events?after=0": "event: transition", "/watch": "event: session"} {
		lines := bufio.NewScanner(send("GET", path, "").Body)
		for seen := false; !seen; seen = strings.HasPrefix(lines.Text(), want) {
			if !lines.Scan() {
				t.Fatalf("%s ends without %q: %v", path, want, lines.Err())
			}
		}
	}
	// It reads where it is to listen, and says how that goes.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	defer taken.Close()
	var listener schemas.ListenerView
	w.must(json.NewDecoder(send("POST", "/listeners", `{"session":"acme/web","port":80,"part":"gateway","listen":"`+taken.Addr().String()+`"}`).Body).Decode(&listener))
	if listener.State != schemas.ListenerFailed || !strings.Contains(listener.Error, "in use") {
		t.Errorf("where another one listens it is %+v", listener)
	}
	send("DELETE", "/listeners/gateway/"+taken.Addr().String(), "")
	send("POST", "/sessions/acme.web/suspend", "")
	send("POST", "/sessions/acme.web/activity", `{"kind":"heartbeat"}`)
	send("DELETE", "/sessions/acme.web", "")
	if got := w.history("acme/web", "token:"+token.ID); len(got) < 3 {
		t.Errorf("the bearer of the token made %+v", got)
	}
	send("DELETE", "/tokens/"+token.ID, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.refused {
		t.Error(err)
	}
}
