package ingress

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/schemas"
)

// echo answers with what it got.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, "%s %s %s\n", r.Method, r.RequestURI, r.Host)
	_ = r.Header.Write(w)
	_, _ = w.Write(body)
}

// Many requests at once resume a session once, each body arrives whole, and neither a port that doesn't listen yet
// nor a session that is suspended again in between is seen from outside.
func TestWakes(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(echo))
	f.dials = []error{ErrRefused, errNotHere, ErrRefused, ErrRefused, errNotHere}
	f.gate = make(chan struct{})
	b := newBrowser(t, serve(t, f.options()))
	big := strings.Repeat("0123456789", 100_000)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			method, body := http.MethodGet, io.Reader(nil)
			if i%2 == 0 {
				method, body = http.MethodPost, strings.NewReader(big)
			}
			got, err := b.ask(method, "http://"+webHost+"/path?q=1", "", body)
			if err != nil || got.StatusCode != http.StatusOK || method == http.MethodPost && !strings.HasSuffix(got.text, big) {
				t.Errorf("%s gives %d bytes, %v, %v", method, len(got.text), got.Response, err)
			}
		})
	}
	until(t, "the first asks", func() bool { return f.asked("authorize") == 40 })
	if n := f.asked("ensure"); n != 1 {
		t.Errorf("it was asked for %d times", n)
	}
	close(f.gate)
	all.Wait()
	until(t, "the leases end", func() bool { return f.leases() == 0 })
	if why := f.whys[0].String(); !strings.HasSuffix(why, " /path to port 80 (fetch by ann)") {
		t.Errorf("it was resumed for %q", why)
	}
}

// What may not be reached isn't looked at.
func TestNothingBeforeAuthorized(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(echo))
	f.denied = &schemas.APIError{Code: schemas.CodeFailed, Reason: schemas.ReasonDenied, Text: "not yours"}
	b := newBrowser(t, serve(t, f.options()))
	for _, headers := range []string{"", chrome + page, "User-Agent: kube-probe/1.34", ws, "Accept: text/event-stream\nLast-Event-ID: 1"} {
		for _, url := range []string{"http://" + webHost + "/", "http://" + webHost + Reserved, "http://80--uid--u1.localhost/", "http://localhost/s/acme/web/80/", "http://80--none.acme.localhost/"} {
			if got := b.must(http.MethodGet, url, headers, nil); got.StatusCode != http.StatusForbidden || !strings.Contains(got.text, "not yours") {
				t.Errorf("%s with %q gives %d: %s", url, headers, got.StatusCode, got.text)
			}
		}
	}
	f.mu.Lock()
	f.denied = events.ErrLost
	f.mu.Unlock()
	if got := b.must(http.MethodGet, "http://"+webHost+"/", "", nil); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("an authorizer that can't tell gives %d: %s", got.StatusCode, got.text)
	}
	for _, call := range []string{"look", "ensure", "hold", "dial"} {
		if n := f.asked(call); n != 0 {
			t.Errorf("%s was called %d times", call, n)
		}
	}
}

// wantProblem reads a problem object.
func wantProblem(t *testing.T, got reply, status int, code string) {
	t.Helper()
	var p problem
	err := json.Unmarshal([]byte(got.text), &p)
	if got.StatusCode != status || got.Header.Get("Content-Type") != "application/problem+json" || err != nil || p.Status != status || p.Code != code || p.Title == "" || p.Detail == "" {
		t.Errorf("it gives %d %s %v: %s, want %d %s", got.StatusCode, got.Header, err, got.text, status, code)
	}
}

// Each budget ends with an answer of its own: for programs a problem, never HTML (godoxy#172), for a person a page. The time to
// connect is no pause between tries (http-add-on#1385).
func TestBudgets(t *testing.T) {
	answers := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hangs":
			<-r.Context().Done()
		case "/breaks":
			panic(http.ErrAbortHandler)
		}
	})
	for what, c := range map[string]struct {
		prepare func(f *fleet, o *Options)
		method  string
		port    string
		path    string
		status  int
		code    string
		retry   bool
	}{
		"waking":     {func(f *fleet, o *Options) { f.gate, o.Budgets.Wake = make(chan struct{}), time.Millisecond }, "POST", "80", "/", 503, CodeWaking, true},
		"connecting": {func(_ *fleet, o *Options) { o.Budgets.Connect = time.Millisecond }, "GET", "81", "/", 502, CodeClosed, false},
		"first byte": {func(_ *fleet, o *Options) { o.Budgets.FirstByte = 100 * time.Millisecond }, "POST", "80", "/hangs", 504, CodeNoReply, false},
		"broken":     {func(*fleet, *Options) {}, "POST", "80", "/breaks", 502, CodeBroken, false},
		"away": {func(f *fleet, o *Options) {
			o.Budgets.Wake, o.Budgets.Connect = time.Millisecond, time.Millisecond
			f.dials = []error{errNotHere, errNotHere}
		}, "GET", "80", "/", 503, CodeAway, true},
		"exited": {func(f *fleet, _ *Options) { f.failure = schemas.StateError(schemas.ReasonExited, "it ended") }, "GET", "80", "/", 503, schemas.CodeState, false},
		"quota":  {func(f *fleet, _ *Options) { f.failure = schemas.StateError(schemas.ReasonQuota, "no room") }, "GET", "80", "/", 503, schemas.CodeState, true},
	} {
		t.Run(what, func(t *testing.T) {
			for _, accept := range []string{"application/json", "*/*", "text/html"} {
				f := newFleet(t, answers)
				o := f.options()
				c.prepare(f, &o)
				got := newBrowser(t, serve(t, o)).must(c.method, "http://"+c.port+"--web.acme.localhost"+c.path, "Accept: "+accept, nil)
				if (got.Header.Get("Retry-After") != "") != c.retry {
					t.Errorf("Retry-After is %q", got.Header.Get("Retry-After"))
				}
				if accept != "text/html" {
					wantProblem(t, got, c.status, c.code)
				} else if got.StatusCode != c.status || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") || !strings.Contains(got.text, "<h1>"+http.StatusText(c.status)) {
					t.Errorf("a person gets %d %s: %s", got.StatusCode, got.Header, got.text)
				}
			}
		})
	}
	wantProblem(t, newBrowser(t, serve(t, newFleet(t, answers).options())).must(http.MethodGet, "http://80--none.acme.localhost/", "", nil), 404, schemas.CodeNoSession)
}

// A navigation gets a page that asks how far the session is until it can reload.
func TestWaitingPage(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(echo))
	f.gate = make(chan struct{})
	o := f.options()
	o.Budgets.Page = time.Millisecond
	b := newBrowser(t, serve(t, o))
	url := "http://" + webHost + "/"
	got := b.must(http.MethodGet, url, chrome+page, nil)
	csp := got.Header.Get("Content-Security-Policy")
	_, nonce, _ := strings.Cut(csp, "script-src 'nonce-")
	nonce, _, _ = strings.Cut(nonce, "'")
	if got.StatusCode != 503 || got.Header.Get("Retry-After") == "" || got.Header.Get("Cache-Control") != "no-store" || !strings.Contains(csp, "default-src 'none'") ||
		len(nonce) < 16 || !strings.Contains(got.text, `<script nonce="`+nonce+`">`) || !strings.Contains(got.text, "acme/web") || strings.Contains(got.text, "src=") {
		t.Errorf("the page is %d %s: %s", got.StatusCode, got.Header, got.text)
	}
	until(t, "the steps are followed", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.step != nil })
	step := f.step
	step(schemas.Progress{Op: "o", Kind: "resume", Stage: "fill", MS: 3, Bytes: 1, Of: 2})
	step(schemas.Progress{Op: "o", Kind: "resume", Stage: "fill", MS: 4, Bytes: 2, Of: 2})
	state := func() (p progress) {
		t.Helper()
		got := b.must(http.MethodGet, url[:len(url)-1]+Reserved, "Accept: application/json", nil)
		if err := json.Unmarshal([]byte(got.text), &p); err != nil || got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("the state is %d %s: %v", got.StatusCode, got.text, err)
		}
		return p
	}
	if p := state(); p.State != schemas.Suspended || !p.Waiting || p.Ready || len(p.Stages) != 1 || p.Stages[0] != (stage{"resume fill", 4, 2, 2}) {
		t.Errorf("while it is resumed the state is %+v", p)
	}
	if f.leases() != 0 {
		t.Error("the page is a lease")
	}
	close(f.gate)
	until(t, "it is ready", func() bool { return state().Ready })
	if n := f.asked("hold"); n != 0 {
		t.Errorf("looking at the state held the session %d times", n)
	}
	o.Budgets.Page = limit
	if got := newBrowser(t, serve(t, o)).must(http.MethodGet, url, chrome+page, nil); got.StatusCode != http.StatusOK || !strings.HasPrefix(got.text, "GET / "+webHost) {
		t.Errorf("after that it gives %d: %s", got.StatusCode, got.text)
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		if got := b.must(method, url[:len(url)-1]+Reserved, "", nil); got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s of the state gives %d: %s", method, got.StatusCode, got.text)
		}
	}
}

// The page's own script shows what passes and reloads when the port listens; it ends when it is cancelled.
func TestWaitingPageRuns(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(echo))
	f.gate = make(chan struct{})
	o := f.options()
	o.Budgets.Page = time.Millisecond
	b := newBrowser(t, serve(t, o))
	got := b.must(http.MethodGet, "http://"+webHost+"/", chrome+page, nil)
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(got.text), 0o600); err != nil {
		t.Fatal(err)
	}
	script := func(args ...string) *exec.Cmd {
		cmd := exec.Command("node", append([]string{"testdata/page.js", b.address, webHost, file}, args...)...)
		cmd.Stderr = os.Stderr
		return cmd
	}
	if out, err := script("cancel").Output(); err != nil || len(out) > 0 {
		t.Errorf("cancelled it says %q, %v", out, err)
	}
	cmd := script()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "It is suspended, after") {
		t.Fatalf("it says %q", lines.Text())
	}
	close(f.gate)
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	if err := cmd.Wait(); err != nil || last != "reloads" {
		t.Errorf("at last it says %q, %v", last, err)
	}
}

// The page says why a session won't come.
func TestWaitingPageFails(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(echo))
	f.failure = schemas.FailedError("", "the image is damaged").WithHint("`diapause verify web`")
	o := f.options()
	b := newBrowser(t, serve(t, o))
	if got := b.must(http.MethodGet, "http://"+webHost+"/", chrome+page, nil); got.StatusCode != 503 || !strings.Contains(got.text, "the image is damaged") {
		t.Errorf("a navigation gives %d: %s", got.StatusCode, got.text)
	}
	got := b.must(http.MethodGet, "http://"+webHost+Reserved, "", nil)
	var p progress
	if err := json.Unmarshal([]byte(got.text), &p); err != nil || p.Error != "the image is damaged" || p.Hint != "`diapause verify web`" {
		t.Errorf("the state is %s, %v", got.text, err)
	}
}

// Robots and pages that come back don't resume a session, and get what they can use. Of a session that runs
// they get what it answers: only those that stay connected are leases. Probes wake nothing (zeropod#86).
func TestInItsStead(t *testing.T) {
	var f *fleet
	during := make(chan int, 1)
	f = newFleet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		during <- f.leases()
		echo(w, r)
	}))
	o := f.options()
	o.Policy = DefaultPolicy()
	o.Policy[WebSocket] = Ignore
	b := newBrowser(t, serve(t, o))
	for headers, want := range map[string]struct {
		status int
		says   string
		leases int
	}{
		"User-Agent: kube-probe/1.34":                                 {200, "session acme/web is suspended", 0},
		"User-Agent: Slackbot 1.0":                                    {200, "<title>acme/web</title>", 0},
		"User-Agent: Googlebot/2.1":                                   {503, `"asleep"`, 0},
		"User-Agent: Googlebot/2.1\nAccept: text/html":                {503, "<h1>Service Unavailable", 0},
		chrome + page + "Sec-Purpose: prefetch":                       {503, "<h1>Service Unavailable", 0},
		"Accept: text/event-stream\nLast-Event-ID: 1":                 {503, `"asleep"`, 1},
		"Accept: application/json\nUser-Agent: ELB-HealthChecker/2.0": {200, "session acme/web is suspended", 0},
	} {
		f.set(schemas.Suspended)
		got := b.must(http.MethodGet, "http://"+webHost+"/", headers, nil)
		if got.StatusCode != want.status || !strings.Contains(got.text, want.says) || got.Header.Get("Diapause-State") != "suspended" {
			t.Errorf("%q gives %d %s: %s", headers, got.StatusCode, got.Header, got.text)
		}
		f.set(schemas.Running)
		got = b.must(http.MethodGet, "http://"+webHost+"/", headers, nil)
		if n := <-during; got.StatusCode != 200 || !strings.HasPrefix(got.text, "GET / ") || n != want.leases {
			t.Errorf("%q gives %d with %d leases of a session that runs: %s", headers, got.StatusCode, n, got.text)
		}
		until(t, "its lease ends", func() bool { return f.leases() == 0 })
		f.set(schemas.Failed)
		if got := b.must(http.MethodGet, "http://"+webHost+"/", headers, nil); got.StatusCode != 503 {
			t.Errorf("%q gives %d of a session that failed: %s", headers, got.StatusCode, got.text)
		}
	}
	f.set(schemas.Suspended)
	if got, err := b.ask(http.MethodGet, "http://"+webHost+"/", ws, nil); err == nil {
		t.Errorf("what is ignored gets %d: %s", got.StatusCode, got.text)
	}
	if n := f.asked("ensure"); n != 0 {
		t.Errorf("the session was asked for %d times", n)
	}
}

// A session gets what a client sent, but for what would be taken for ours, and who the client is. Its Host is the one that a dev
// server wants (jac#7406).
func TestHeaders(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, c := range []string{"a=1; Path=/; Domain=acme.localhost; HttpOnly", "b=2", "__Host-diapause=stolen; Secure"} {
			w.Header().Add("Set-Cookie", c)
		}
		w.Header().Set("Location", "/next")
		w.Header().Set("Diapause-State", "forged")
		echo(w, r)
	}))
	b := newBrowser(t, serve(t, f.options()))
	sent := "Authorization: Bearer ours\nX-Forwarded-For: 6.6.6.6\nForwarded: for=6.6.6.6\nX-Forwarded-Host: evil\nX-Forwarded-Prefix: /x\nX-Forwarded-Proto: https\n" +
		"X-Real-IP: 6.6.6.6\nX_Forwarded_For: 6.6.6.6\nX_Real_IP: 6.6.6.6\nX_Diapause_User: secret\nX-Diapause-Token: secret\nDiapause-Token: secret\nCookie: a=1; diapause_session=secret; __Host-diapause=secret; b=2\nX-Own: kept\n" +
		"Connection: X-Hop\nX-Hop: 1\nProxy-Authorization: Basic x\nTE: gzip\n"
	got := b.must(http.MethodGet, "http://"+webHost+":8443/a%2Fb/../c?q=%zz;x", sent, nil)
	for _, want := range []string{"GET /a%2Fb/../c?q=%zz;x " + webHost + ":8443\n", "X-Forwarded-For: 127.0.0.1\r\n", "X-Forwarded-Host: " + webHost + ":8443\r\n", "X-Forwarded-Proto: http\r\n", "Cookie: a=1; b=2\r\n", "X-Own: kept\r\n"} {
		if !strings.Contains(got.text, want) {
			t.Errorf("the session doesn't get %q but:\n%s", want, got.text)
		}
	}
	for _, never := range []string{"6.6.6.6", "secret", "ours", "X-Forwarded-Prefix", "https", "X-Hop", "Proxy-Auth", "Te:"} {
		if strings.Contains(got.text, never) {
			t.Errorf("the session gets %q:\n%s", never, got.text)
		}
	}
	if got.Header.Get("Diapause-State") != "" {
		t.Errorf("the session says what is ours to say: %s", got.Header)
	}
	if up := b.must(http.MethodGet, "http://"+webHost+"/", "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABk\n", nil); up.StatusCode != http.StatusOK || strings.Contains(up.text, "h2c") {
		t.Errorf("the session is asked for HTTP/2: %s", up.text)
	}
	if c := got.Header.Values("Set-Cookie"); len(c) != 2 || c[0] != "a=1; Path=/; HttpOnly" || c[1] != "b=2" {
		t.Errorf("the cookies are %q", c)
	}
	o := f.options()
	o.HostHeader = "localhost:3000"
	got = newBrowser(t, serve(t, o)).must(http.MethodGet, "http://localhost/s/acme/web/80/a%2Fb?x=1", "Cookie: a=1\n", nil)
	if !strings.HasPrefix(got.text, "GET /a%2Fb?x=1 localhost:3000\n") || strings.Contains(got.text, "Cookie") || !strings.Contains(got.text, "X-Forwarded-Prefix: /s/acme/web/80\r\n") ||
		got.Header.Get("Content-Security-Policy") != "sandbox" || got.Header.Get("Set-Cookie") != "" || got.Header.Get("Location") != "/s/acme/web/80/next" {
		t.Errorf("the path form gives %s: %s", got.Header, got.text)
	}
	got = b.must(http.MethodGet, "http://localhost:8443/s/acme/web/80/a%2Fb?x=1", chrome+page, nil)
	if got.StatusCode != http.StatusTemporaryRedirect || got.Header.Get("Location") != "http://"+webHost+":8443/a%2Fb?x=1" {
		t.Errorf("a navigation in the path form gives %d %s", got.StatusCode, got.Header)
	}
}

// A body is left with the client until there is a connection: to wait needs no memory, and loses nothing.
func TestBodyWaits(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(echo))
	f.gate = make(chan struct{})
	b := newBrowser(t, serve(t, f.options()))
	var read atomic.Int64
	body := bytes.NewReader(make([]byte, 20<<20))
	answered := make(chan reply, 1)
	go func() {
		got, err := b.ask(http.MethodPost, "http://"+webHost+"/", "", countingReader{body, &read})
		if err != nil {
			t.Error(err)
		}
		answered <- got
	}()
	until(t, "the client sends", func() bool { return read.Load() > 0 })
	before := int64(-1)
	until(t, "it can't send more", func() bool { // the kernel's buffers are full
		time.Sleep(50 * time.Millisecond)
		now := read.Load()
		defer func() { before = now }()
		return now == before
	})
	if before == 20<<20 {
		t.Error("the whole body was taken before there was a connection")
	}
	close(f.gate)
	if got := <-answered; len(got.text) < 20<<20 {
		t.Errorf("%d bytes arrive", len(got.text))
	}
}

type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}
