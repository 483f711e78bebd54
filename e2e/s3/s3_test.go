package s3

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/objectstore/storetest/server"
	"github.com/diapause/diapause/schemas"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 2 * time.Minute

func start(t *testing.T, k server.Kind) *server.Server {
	t.Helper()
	srv, err := server.Start(t.Context(), k, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Kill)
	return srv
}

// up starts a daemon that keeps its images in the store.
func up(t *testing.T, store string) *stack.Stack {
	t.Helper()
	s, _ := stack.Fresh(t)
	s.Env = append(os.Environ(), append(server.Environment(), "DIAPAUSE_STORE="+store)...)
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t *testing.T, s *stack.Stack, args ...string) string {
	t.Helper()
	out, err := s.Must(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// counts waits until the session has counted on.
func counts(t *testing.T, s *stack.Stack) {
	t.Helper()
	from := must(t, s, "exec", "work", "--", "cat", "/tmp/count")
	for end := time.Now().Add(limit); must(t, s, "exec", "work", "--", "cat", "/tmp/count") == from; {
		if time.Now().After(end) {
			t.Fatalf("the session doesn't count on from %s", from)
		}
	}
}

func begin(t *testing.T, s *stack.Stack) {
	t.Helper()
	must(t, s, "run", "--name", "work", "--idle", "never", "--", "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i >/tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.02; done")
	for end := time.Now().Add(limit); s.Do("exec", "work", "--", "test", "-s", "/tmp/count").Code != 0; {
		if time.Now().After(end) {
			t.Fatal("the session doesn't begin to count")
		}
	}
	counts(t, s)
}

func wantState(t *testing.T, s *stack.Stack, want schemas.State) {
	t.Helper()
	v, err := s.View("work")
	if err != nil || v.State != want {
		t.Fatalf("the session is %s (%v), want %s", v.State, err, want)
	}
}

func TestSuspendAndResume(t *testing.T) {
	for _, k := range server.Kinds {
		t.Run(string(k), func(t *testing.T) {
			s := up(t, start(t, k).URL("fleet/a"))
			if r := s.Do("doctor", "--nats", s.URL); !strings.Contains(r.Out, "in s3://"+server.Bucket+"/fleet/a") {
				t.Errorf("the doctor doesn't try the store:\n%s%s", r.Out, r.Err)
			}
			begin(t, s)
			for range 2 {
				must(t, s, "suspend", "work")
				must(t, s, "ensure", "work")
				counts(t, s)
			}
			must(t, s, "store", "check", "--read-data")
			must(t, s, "audit", "--verify")
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			env := s.Env
			// Without the store's name its images would be looked for elsewhere.
			s.Env = append(os.Environ(), server.Environment()...)
			if err := s.Up(); err == nil || !strings.Contains(err.Error(), "its images are in another store") {
				t.Errorf("up with another store: %v", err)
			}
			s.Env = env
		})
	}
}

// A server that dies in mid-suspend, and in mid-resume, delays both and loses
// nothing.
func TestServerIsAway(t *testing.T) {
	srv := start(t, server.MinIO)
	s := up(t, srv.URL("fleet"))
	begin(t, s)
	for _, c := range []struct {
		verb string
		want schemas.State
	}{{"suspend", schemas.Suspended}, {"ensure", schemas.Running}} {
		srv.Kill()
		before := strings.Count(s.Log(), "trying again")
		result := make(chan stack.Result, 1)
		go func() { result <- s.Do(c.verb, "work") }()
		for end := time.Now().Add(limit); strings.Count(s.Log(), "trying again") == before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the daemon doesn't notice that the store is away")
			}
		}
		if err := srv.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := <-result; r.Code != 0 {
			t.Fatalf("%s: exit status %d: %s", c.verb, r.Code, r.Err)
		}
		wantState(t, s, c.want)
	}
	counts(t, s)
	must(t, s, "audit", "--verify")
}

// refuser stands before a server and refuses writes as it is told to.
type refuser struct {
	proxy *httputil.ReverseProxy
	how   atomic.Pointer[refusal]
}

type refusal struct {
	status int
	code   string
}

func (p *refuser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	how := p.how.Load()
	if how == nil || r.Method != http.MethodPut {
		p.proxy.ServeHTTP(w, r)
		return
	}
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(how.status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>refused</Message></Error>`, how.code)
}

// A store that is full, or denies access, stops the suspend at once; the session
// runs on, and is suspended when the store takes it again.
func TestRefused(t *testing.T) {
	srv := start(t, server.MinIO)
	to, err := url.Parse("http://" + srv.Address())
	if err != nil {
		t.Fatal(err)
	}
	// The host's name stays as the client has signed it.
	front := &refuser{proxy: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host }}}
	front.proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 16}
	proxy := httptest.NewServer(front)
	t.Cleanup(proxy.Close)
	s := up(t, server.URLAt(strings.TrimPrefix(proxy.URL, "http://"), "fleet"))
	begin(t, s)
	for _, c := range []struct {
		refusal
		says string
	}{
		{refusal{http.StatusInsufficientStorage, "XMinioStorageFull"}, "object store is full"},
		{refusal{http.StatusForbidden, "AccessDenied"}, "check the access key"},
	} {
		front.how.Store(&c.refusal)
		if r := s.Do("suspend", "work"); r.Code != 1 || !strings.Contains(r.Err, c.says) {
			t.Errorf("suspend: exit status %d: %s; want 1 and %q", r.Code, r.Err, c.says)
		}
		wantState(t, s, schemas.Running)
		counts(t, s)
	}
	front.how.Store(nil)
	must(t, s, "suspend", "work")
	must(t, s, "ensure", "work")
	counts(t, s)
	must(t, s, "audit", "--verify")
}
