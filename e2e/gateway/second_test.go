package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// second starts a gateway of its own beside the one of the daemon, and gives its address.
func (w *world) second() (address string, stop func()) {
	w.Helper()
	cmd := exec.Command(w.Program, "gateway", "--nats", w.Secure, "--creds", w.Data+"/creds/system.nk", "--listen", "127.0.0.1:0")
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	w.must(err)
	w.must(threadtest.Start(cmd))
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready: gateway http://") {
		w.Fatalf("it says %q, %s", lines.Text(), said.String())
	}
	address, _, _ = strings.Cut(strings.TrimPrefix(lines.Text(), "ready: gateway http://"), "/")
	return address, func() {
		w.must(cmd.Process.Signal(syscall.SIGTERM))
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				w.Errorf("the second gateway ends with %v: %s", err, said.String())
			}
		case <-time.After(limit):
			w.Error("the second gateway doesn't end")
		}
	}
}

// TestTwoGateways asks two of them for the same, with one token.
func TestTwoGateways(t *testing.T) {
	w := newWorld(t)
	token := w.token("--role", "operator")
	address, stop := w.second()
	first, second := asks{w, w.address, token}, asks{w, address, token}
	var one, two session
	first.call("POST", "/api/v1/sessions", 201, counting("acme/web"), &one, "Idempotency-Key: k")
	second.call("POST", "/api/v1/sessions", 201, counting("acme/web"), &two, "Idempotency-Key: k")
	if one.UID == "" || one.UID != two.UID {
		t.Errorf("the sessions are %q and %q", one.UID, two.UID)
	}
	w.atOnce(token, w.address, address)
	out, err := w.Must("token", "ls", "--json")
	w.must(err)
	if strings.Contains(out, token) || strings.Contains(w.Stack.Log(), token) {
		t.Error("the token is told")
	}
	var me schemas.WhoAmI
	second.call("GET", "/api/v1/whoami", 200, nil, &me)
	_, err = w.Must("token", "revoke", strings.TrimPrefix(me.Actor, "token:"))
	w.must(err)
	for _, a := range []asks{first, second} {
		a.call("GET", "/api/v1/whoami", 401, nil, nil)
	}
	stop()
}

// atOnce sends the same request to both gateways many times at once: one session comes of it, which is the answer
// to all.
func (w *world) atOnce(token string, addresses ...string) {
	w.Helper()
	body, err := json.Marshal(counting("acme/once"))
	w.must(err)
	var wg sync.WaitGroup
	answers := make(chan string, 100)
	for i := range 12 {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(w.Context(), "POST", "http://"+addresses[i%2]+"/api/v1/sessions", bytes.NewReader(body))
			if err != nil {
				answers <- err.Error()
				return
			}
			r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Idempotency-Key": {"once"}}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- err.Error()
				return
			}
			defer answer.Body.Close()
			data, _ := io.ReadAll(answer.Body)
			var s session
			_ = json.Unmarshal(data, &s)
			if answers <- string(s.UID); answer.StatusCode != http.StatusCreated || s.UID == "" {
				answers <- string(data)
			}
		})
	}
	wg.Wait()
	close(answers)
	uids := map[string]bool{}
	for a := range answers {
		uids[a] = true
	}
	if len(uids) != 1 {
		w.Errorf("asked at once, the answers are %v", uids)
	}
}

// A gateway that others could listen to doesn't start.
func TestGatewayNeedsTLS(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{
		{"--listen", "0.0.0.0:0"}, {"--listen", "0.0.0.0:0", "--tls-cert", "none"}, {"--listen", "0.0.0.0:0", "--tls-cert", "none", "--tls-key", "none"}, {"--host", "*"},
	} {
		r := w.Do(append([]string{"gateway", "--nats", w.Secure, "--creds", w.Data + "/creds/system.nk"}, args...)...)
		if r.Code != 2 || r.Err == "" {
			t.Errorf("%v: exit status %d, %s", args, r.Code, r.Err)
		}
	}
	if r := w.Do("up", "--http", "0.0.0.0:0"); r.Code != 2 || !strings.Contains(r.Err, "loopback") {
		t.Errorf("up --http 0.0.0.0:0: exit status %d, %s", r.Code, r.Err)
	}
}
