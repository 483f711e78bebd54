package ingress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diapause/diapause/schemas"
)

func TestClassesOfPolicies(t *testing.T) {
	var all []string
	for _, c := range Classes() {
		all = append(all, string(c))
	}
	if !slices.Equal(all, schemas.RequestClasses()) {
		t.Errorf("policies know %v, the ingress %v", schemas.RequestClasses(), all)
	}
	p := PolicyOf([]schemas.WakeRule{"navigation", "crawler:ignore", "fetch:answer"})
	for class, want := range map[Class]Verdict{Navigation: Wake, Crawler: Ignore, Fetch: Answer, WebSocket: Answer, Probe: Answer} {
		if got := Decide(class, schemas.Suspended, p); got != want {
			t.Errorf("%s: %s, want %s", class, got, want)
		}
	}
	if got := UseOf(Reconnect, Policy{Reconnect: Ignore}); got != (Use{}) {
		t.Errorf("what is ignored is %+v", got)
	}
}

// rule has the session's policy say which requests resume it.
func (f *fleet) rule(rules ...schemas.WakeRule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake = rules
}

// Each session's own policy counts, also where that of others would resume it.
func TestPolicyOfTheSession(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(echo))
	f.rule("navigation", "probe", "crawler:ignore")
	b := newBrowser(t, serve(t, f.options()))
	if got := b.must(http.MethodGet, "http://"+webHost+"/api", "Accept: application/json", nil); got.StatusCode != 503 || !strings.Contains(got.text, `"asleep"`) || f.asked("ensure") > 0 {
		t.Errorf("a program gets %d: %s", got.StatusCode, got.text)
	}
	if got, err := b.ask(http.MethodGet, "http://"+webHost+"/", "User-Agent: Googlebot/2.1", nil); err == nil || f.asked("ensure") > 0 {
		t.Errorf("a crawler gets %v", got.Response)
	}
	if got := b.must(http.MethodGet, "http://"+webHost+"/", "User-Agent: kube-probe/1.34", nil); got.StatusCode != 200 || f.asked("ensure") != 1 {
		t.Errorf("a probe gets %d: %s", got.StatusCode, got.text)
	}
	f.set(schemas.Suspended)
	o := f.options()
	o.Policy = DefaultPolicy()
	if got := newBrowser(t, serve(t, o)).must(http.MethodGet, "http://"+webHost+"/api", "Accept: application/json", nil); got.StatusCode != 200 {
		t.Errorf("with a policy in place of the session's a program gets %d: %s", got.StatusCode, got.text)
	}
}

func TestPolicyOfTheSessionOverTCP(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(echo))
	f.rule([]schemas.WakeRule{}...) // none
	c := relay(t, f, f.options(), nil).dial()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); len(got) > 0 || f.asked("ensure") > 0 {
		t.Errorf("it answers %q, %v", got, err)
	}
	f.set(schemas.Running)
	c = relay(t, f, f.options(), nil).dial()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "200") || f.asked("hold") > 0 {
		t.Errorf("of a session that runs it reads %q, %v, with %d leases", line, err, f.asked("hold"))
	}
}

// A dashboard that is left open and asks again and again keeps nothing awake, and health checks don't, where the
// policy says that they aren't use (coder#12012, zeropod#86).
func TestPollingKeepsNothing(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(echo))
	f.set(schemas.Running)
	f.rule("navigation")
	b := newBrowser(t, serve(t, f.options()))
	for range 20 {
		for _, headers := range []string{chrome + "Accept: */*\nSec-Fetch-Mode: cors", "User-Agent: kube-probe/1.34", "User-Agent: Slackbot 1.0"} {
			if got := b.must(http.MethodGet, "http://"+webHost+"/stats", headers, nil); got.StatusCode != 200 {
				t.Fatalf("%q gives %d", headers, got.StatusCode)
			}
		}
	}
	if n := f.asked("hold") + f.asked("ensure"); n > 0 {
		t.Errorf("polling was said %d times to be use", n)
	}
	b.must(http.MethodGet, "http://"+webHost+"/", chrome+page, nil)
	if f.asked("hold") != 1 {
		t.Error("a person who opens the page is no use")
	}
}

// A film that plays is one request, and a lease until its end, however long nothing else is asked (sablier#576).
func TestFilmKeepsPlaying(t *testing.T) {
	scene := make(chan struct{})
	f := newFleet(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range scene {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
		}
	}))
	b := newBrowser(t, serve(t, f.options()))
	r, err := http.NewRequest(http.MethodGet, "http://"+webHost+"/film.mp4", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { scene <- struct{}{} }()
	answer, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for i := range 5 {
		if i > 0 {
			scene <- struct{}{}
		}
		if _, err := io.ReadFull(answer.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if f.leases() != 1 {
			t.Fatalf("%d leases during scene %d", f.leases(), i)
		}
	}
	close(scene)
	if rest, err := io.ReadAll(answer.Body); err != nil || len(rest) > 0 {
		t.Errorf("it ends with %q, %v", rest, err)
	}
	until(t, "the lease ends", func() bool { return f.leases() == 0 })
}

// changing is a session whose policy changes, and that can't be looked at now and then.
type changing struct {
	Waker
	rules []schemas.WakeRule
	err   error
	looks int
}

func (c *changing) Look(context.Context, Target) (schemas.View, error) {
	c.looks++
	return schemas.View{Wake: c.rules}, c.err
}

// A change of a policy counts soon; while it can't be found out the last one counts.
func TestPolicyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w, target := newPolicies(nil), &changing{err: errors.New("away")}, Target{Name: web, Port: 80}
		if got := p.look(t.Context(), w, target); got[Fetch] != Wake {
			t.Errorf("before it was found out it is %v", got)
		}
		w.err, w.rules = nil, []schemas.WakeRule{"navigation"}
		for range 3 {
			if got := p.look(t.Context(), w, target); got[Fetch] == Wake || w.looks != 2 {
				t.Errorf("it is %v after %d looks", got, w.looks)
			}
		}
		w.rules = []schemas.WakeRule{}
		time.Sleep(current)
		if got := p.look(t.Context(), w, target); len(got) > 0 {
			t.Errorf("after the change it is %v", got)
		}
		w.err = errors.New("away")
		time.Sleep(current)
		if got := p.look(t.Context(), w, target); len(got) > 0 {
			t.Errorf("while it can't be found out it is %v", got)
		}
	})
}
