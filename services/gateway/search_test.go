package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
)

// searchBench is a gateway before two hosts that have lines, and one that is away.
type searchBench struct {
	*bench
	mu    sync.Mutex
	asked []attach.Search // of the hosts, since it was looked at last
	of    []string
	lines []attach.Found
	fails string
}

func newSearchBench(t *testing.T) *searchBench {
	t.Helper()
	b := &searchBench{bench: newBench(t, nil)}
	b.isOf(map[string]schemas.WhoAmI{
		"dpt_a": {Actor: "token:a", Role: schemas.TokenOperator}, "dpt_acme": {Actor: "token:b", Role: schemas.TokenOwner, Tenant: "acme"},
		"dpt_web":    {Actor: "token:c", Role: schemas.TokenOwner, Tenant: "acme", Session: "web"},
		"dpt_reader": {Actor: "token:d", Role: schemas.TokenReader, Tenant: "acme"}, "dpt_client": {Actor: "token:e", Role: schemas.TokenClient, Tenant: "acme"},
		"dpt_publisher": {Actor: "token:f", Role: schemas.TokenPublisher, Tenant: "acme"},
	})
	all := []schemas.View{
		{Name: "acme/web", UID: "1", TTY: true, Host: "h1", Labels: map[string]string{"team": "blue"}}, {Name: "acme/work", UID: "2", TTY: true, Host: "h2"},
		{Name: "acme/none", UID: "3", Host: "h1"}, {Name: "b/secret", UID: "4", TTY: true, Host: "h1"}, {Name: "acme/away", UID: "5", TTY: true, Host: "h3"},
	}
	b.answers("list", func(asked) (any, *schemas.APIError) { return all, nil }) // it confines no one: the gateway does besides
	b.answers("show", func(a asked) (any, *schemas.APIError) {
		for _, v := range all {
			if v.Name == a.Name {
				return v, nil
			}
		}
		return nil, &schemas.APIError{Code: schemas.CodeNoSession, Text: "no such session"}
	})
	for _, host := range []string{"h1", "h2"} {
		l, err := tunnel.Listen(b.nc, schemas.SubjectHost+"."+host+".dial")
		b.must(err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept(t.Context())
				if err != nil {
					return
				}
				go b.host(conn)
			}
		}()
	}
	b.must(b.nc.Flush())
	return b
}

// host answers one search as a host does: with the last lines that aren't too late, in order.
func (b *searchBench) host(conn *tunnel.Conn) {
	defer conn.Close()
	var hello attach.Hello
	r, err := attach.ReadRequest(conn)
	if json.Unmarshal(conn.Hello(), &hello) != nil || !hello.Search || err != nil || r.Search == nil {
		b.Errorf("the request is %s, %+v, %v", conn.Hello(), r, err)
		return
	}
	of, err := attach.ReadSearched(conn)
	if err != nil {
		b.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, *r.Search)
	names := map[string]bool{}
	for _, s := range of {
		b.of, names[s.Name] = append(b.of, s.Name), true
	}
	if b.fails != "" {
		_ = attach.WriteError(conn, b.fails)
		return
	}
	_ = attach.WriteFrame(conn, attach.FrameStarted, nil)
	_ = attach.WriteFrame(conn, attach.FrameStderr, []byte("a \x1b[31mnote\n"))
	lines := slices.SortedFunc(slices.Values(b.lines), attach.Newest)
	n := 0
	for _, f := range lines {
		if !names[f.Session] || n == r.Search.Limit || !r.Search.Until.IsZero() && !f.Time.Before(r.Search.Until) {
			continue
		}
		n++
		line, _ := json.Marshal(f)
		_ = attach.WriteFrame(conn, attach.FrameStdout, append(line, '\n'))
	}
	_ = attach.WriteJSON(conn, attach.FrameExit, schemas.ExitStatus{})
}

// took gives what the hosts were asked since it was called last.
func (b *searchBench) took() (asked []attach.Search, of string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.of)
	asked, of = b.asked, strings.Join(b.of, " ")
	b.asked, b.of = nil, nil
	return asked, of
}

func by(token string) string { return "Authorization: Bearer " + token }

// TestSearchOverHTTP: what is asked for comes to the hosts of the sessions that it is about, and to no others.
func TestSearchOverHTTP(t *testing.T) {
	t.Parallel()
	b := newSearchBench(t)
	b.lines = []attach.Found{{Session: "acme/web", In: attach.InOutput, Line: "a <b>line</b>", Time: time.Now(), Before: []string{"before"}}, {Session: "b/secret", Line: "theirs", Time: time.Now()}}
	const everyone = "acme/away acme/web acme/work b/secret"
	for query, want := range map[string]string{
		"": everyone, "&tenant=acme": "acme/away acme/web acme/work", "&session=acme.web": "acme/web", "&session=acme%2Fweb": "acme/web", "&session=web&tenant=acme": "acme/web",
		"&label=team=blue": "acme/web", "&label=team&label=none": "",
	} {
		p := read[FoundPage](b.bench, b.do("GET", prefix+"/search?q=line"+query, ""))
		if _, of := b.took(); of != want || p.Found == nil || p.Searched != len(strings.Fields(want)) {
			t.Errorf("%q searches %q and answers %+v; want %q", query, of, p, want)
		}
	}
	for token, want := range map[string]string{"dpt_acme": "acme/away acme/web acme/work", "dpt_web": "acme/web"} {
		for _, path := range []string{"/search", "/terminal/sessions/search"} {
			p := read[FoundPage](b.bench, b.do("GET", prefix+path+"?q=line", "", by(token)))
			asked, of := b.took()
			if of != want || len(p.Found) != 1 || p.Found[0].Line != "a <b>line</b>" || p.Found[0].Before[0] != "before" || p.Missing[0] != "a [31mnote" {
				t.Errorf("%s at %s searches %q, and finds %+v", token, path, of, p)
			}
			if s := asked[0].Scope; s.Tenant != "acme" || token == "dpt_web" && s.Session != "web" {
				t.Errorf("the host is told that %s is for %+v", token, s)
			}
		}
	}
	q := url.Values{"q": {`one "two three" four`}, "since": {"2026-05-04T15:30:00Z"}, "until": {"2026-05-05T15:30:00Z"}, "exit": {"nonzero"}, "in": {"output"}, "context": {"3"}, "limit": {"7"}, "tenant": {"acme"}, "session": {"work"}}
	b.do("GET", prefix+"/search?"+q.Encode(), "")
	since := time.Date(2026, 5, 4, 15, 30, 0, 0, time.UTC)
	asked, _ := b.took()
	if want := (attach.Search{Words: []string{"one", "two three", "four"}, Since: since, Until: since.Add(24 * time.Hour), Exit: "nonzero", In: "output", Context: 3, Limit: 8, Scope: &attach.Scope{Tenant: "acme", Session: "work"}}); !reflect.DeepEqual(asked, []attach.Search{want}) {
		t.Errorf("asked is %+v, want %+v", asked, want)
	}
	b.do("GET", prefix+"/search?regexp=true&since=1h&q="+url.QueryEscape(`a "b [0-9]+`), "")
	if asked, _ := b.took(); len(asked) == 0 || !asked[0].Regexp || !slices.Equal(asked[0].Words, []string{`a "b [0-9]+`}) || time.Since(asked[0].Since) < time.Hour {
		t.Errorf("an expression is %+v", asked)
	}
}

// TestSearchPages: pages have each line once and in order, also where many are of one moment.
func TestSearchPages(t *testing.T) {
	t.Parallel()
	b := newSearchBench(t)
	at := time.Date(2026, 5, 4, 3, 2, 1, 999, time.UTC)
	for i := range 40 {
		b.lines = append(b.lines, attach.Found{Session: []string{"acme/web", "acme/work", "b/secret"}[i%3], In: attach.InOutput, At: int64(i), Line: fmt.Sprint(i), Time: at.Add(time.Duration(min(i/8, 3)))})
	}
	want := slices.SortedFunc(slices.Values(b.lines), attach.Newest)
	for _, limit := range []int{1, 3, 7, 40, 41} {
		var all []attach.Found
		for next, pages := "", 0; pages == 0 || next != ""; pages++ {
			p := read[FoundPage](b.bench, b.do("GET", fmt.Sprintf("%s/search?q=x&limit=%d&before=%s", prefix, limit, next), ""))
			if len(p.Found) > limit || len(p.Found) == 0 {
				t.Fatalf("a page of %d has %d lines", limit, len(p.Found))
			}
			all, next = append(all, p.Found...), p.Next
		}
		if !reflect.DeepEqual(all, want) {
			t.Errorf("pages of %d have %d lines: %+v", limit, len(all), all)
		}
	}
	// Of one moment no more are listed than a host is asked for, and it is said.
	for i := range 1200 {
		b.lines = append(b.lines, attach.Found{Session: "acme/web", In: attach.InOutput, At: int64(i + 100), Line: "many", Time: at.Add(time.Hour)})
	}
	got, missing := 0, false
	for next, pages := "", 0; pages == 0 || next != ""; pages++ {
		p := read[FoundPage](b.bench, b.do("GET", fmt.Sprintf("%s/search?q=x&limit=100&before=%s", prefix, next), ""))
		got, next = got+len(p.Found), p.Next
		missing = missing || slices.ContainsFunc(p.Missing, func(s string) bool { return strings.HasPrefix(s, "of one moment") })
	}
	if got != 900+40 || !missing {
		t.Errorf("%d lines come, and that some don't is said: %v", got, missing)
	}
	// Long lines make a page end early.
	b.lines = nil
	for i := range 60 {
		b.lines = append(b.lines, attach.Found{Session: "acme/web", At: int64(i), Line: strings.Repeat("x", 200<<10), Time: at.Add(time.Duration(i))})
	}
	p := read[FoundPage](b.bench, b.do("GET", prefix+"/search?q=x&limit=100", ""))
	if len(p.Found) == 0 || len(p.Found) > 25 || p.Found[0].At != 59 || p.Next == "" {
		t.Errorf("a page has %d long lines, next %q", len(p.Found), p.Next)
	}
}

// TestSearchIsRefused: the right to see what terminals showed is looked at first; nothing that is refused comes to a host.
func TestSearchIsRefused(t *testing.T) {
	t.Parallel()
	b := newSearchBench(t)
	for _, path := range []string{"/search", "/terminal/sessions/search"} {
		for _, query := range []string{"?q=line", "", "?q=line&session=b.secret", "?q=(&regexp=true"} {
			for token, status := range map[string]int{"": 401, "dpt_none": 401, "dpt_reader": 403, "dpt_client": 403, "dpt_publisher": 403} {
				b.refused(token+" asks for "+path+query, b.do("GET", prefix+path+query, "", strings.TrimSuffix(by(token), "Bearer ")), status)
			}
		}
		for _, query := range []string{
			"", "?q=", "?q=%20", "?q=x&limit=0", "?q=x&limit=101", "?q=x&context=21", "?q=x&context=-1", "?q=x&in=files", "?q=x&exit=y", "?q=x&since=later", "?q=x&since=-1h",
			"?q=x&since=1h&until=2h", "?q=x&session=a.b.c", "?q=x&session=a.b&tenant=c", "?q=x&tenant=../x", "?q=x&before=x", "?q=x&before=e30", "?q=x&y=1", "?q=x&wait=soon", "?q=%ff",
			"?q=(&regexp=true&since=1h", "?q=x&regexp=true", "?q=-%3E", "?q=" + strings.Repeat("a+", 33), "?q=" + strings.Repeat("a", 1025), "?q=x" + strings.Repeat("&label=a", 17),
		} {
			b.refused(query, b.do("GET", prefix+path+query, ""), http.StatusBadRequest)
		}
		for query, token := range map[string]string{"&tenant=b": "dpt_acme", "&session=b.secret": "dpt_acme", "&session=acme.work": "dpt_web", "&session=work": "dpt_web"} {
			b.refused(token+query, b.do("GET", prefix+path+"?q=x"+query, "", by(token)), http.StatusForbidden)
		}
		b.refused("one that isn't", b.do("GET", prefix+path+"?q=x&session=acme.nothing", ""), http.StatusNotFound)
		b.refused("one whose host is away", b.do("GET", prefix+path+"?q=x&session=acme.away", ""), http.StatusServiceUnavailable)
	}
	if asked, of := b.took(); len(asked) > 0 {
		t.Errorf("hosts were asked for %q", of)
	}
	b.fails = "no key"
	if p := b.refused("hosts without a key", b.do("GET", prefix+"/search?q=x", ""), http.StatusConflict); !strings.Contains(p.Detail, "no key") {
		t.Errorf("it says %+v", p)
	}
}

// TestSearchesAtOnce: one token has few searches at a time, and all together have a bound.
func TestSearchesAtOnce(t *testing.T) {
	t.Parallel()
	s := &newSearches(readings{}).slots
	var ends []func()
	for i := range allSearches {
		end, p := s.begin(fmt.Sprint(i / perSearcher))
		if p != nil {
			t.Fatalf("search %d: %v", i, p)
		}
		ends = append(ends, end)
	}
	if _, p := s.begin("0"); p == nil || p.Status != http.StatusTooManyRequests {
		t.Errorf("one more of one token: %v", p)
	}
	if _, p := s.begin("another"); p == nil || p.Status != http.StatusServiceUnavailable {
		t.Errorf("one more of all: %v", p)
	}
	for _, end := range ends {
		end()
	}
	if s.all != 0 || len(s.of) != 0 {
		t.Errorf("%d are left, %v", s.all, s.of)
	}
}
