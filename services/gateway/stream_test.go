package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

var acme = schemas.WhoAmI{Actor: "token:a", Role: schemas.TokenReader, Tenant: "acme"}

// record writes a new revision of a session.
func (b *bench) record(name string, v statekv.Versioned) statekv.Versioned {
	b.Helper()
	n, err := schemas.ParseName(name)
	b.must(err)
	t := schemas.Transition{Type: schemas.TRun, Actor: "test", Set: schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "o", Kind: schemas.OpStart},
		New: &schemas.NewSession{UID: schemas.UID("u" + n.Session), Tenant: n.Tenant, Session: n.Session, Class: "web", Lineage: "u" + string(n.Session), Born: 1},
	}}
	if v.Version > 0 {
		t = schemas.Transition{Type: schemas.TClaimed, Actor: "worker@h", Op: v.Op.ID}
	}
	v, err = b.records.Swap(b.Context(), v, t)
	b.must(err)
	return v
}

// received is an event as a client gets it.
type received struct{ id, kind, data string }

// events gives the events of a stream one by one, with the comments among them.
func (b *bench) events(r *http.Response) func() (received, bool) {
	b.Helper()
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/event-stream" {
		b.Fatalf("status %d, type %s", r.StatusCode, r.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(r.Body)
	return func() (e received, ok bool) {
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.kind = value
			case "data":
				e.data = value
			case "":
				if e != (received{}) {
					return e, true
				}
			}
		}
		return e, false
	}
}

// follow opens the log as one connection of a client does.
func (b *bench) follow(url, query, last string) (*http.Response, context.CancelFunc) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.Context(), limit)
	b.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, "GET", url+"/api/v1/events"+query, nil)
	b.must(err)
	r.Header.Set("Authorization", "Bearer dpt_a")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	b.must(err)
	b.Cleanup(func() { _ = answer.Body.Close() })
	return answer, stop
}

// A client that is cut off after every event, and comes back to another gateway, misses nothing and sees
// nothing twice.
func TestLogWithoutGapsOrDoubles(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.isOf(map[string]schemas.WhoAmI{"dpt_a": acme})
	_, other := b.open(nil)
	urls := []string{b.url, other}
	// The client is there before there is anything to see, and keeps the place that it is given.
	r, stop := b.follow(b.url, "", "")
	first, ok := b.events(r)()
	if !ok || first.id != "0" || first.data != "" {
		t.Fatalf("the first event is %+v", first)
	}
	stop()
	var want []string
	for i := range 5 {
		v := b.record(fmt.Sprintf("acme/s%d", i), statekv.Versioned{})
		want = append(want, strconv.FormatUint(v.Rev.Seq(), 10))
		b.record(fmt.Sprintf("other/s%d", i), statekv.Versioned{})
		v = b.record(fmt.Sprintf("acme/s%d", i), v)
		want = append(want, strconv.FormatUint(v.Rev.Seq(), 10))
	}
	var got []string
	for last := first.id; len(got) < len(want); {
		r, stop := b.follow(urls[len(got)%2], "?after=0", last)
		next := b.events(r)
		if begins, ok := next(); !ok || begins.id != last || begins.kind != "" {
			t.Fatalf("after %s it begins with %+v", last, begins)
		}
		e, ok := next()
		if !ok || e.kind != "transition" {
			t.Fatalf("after %s comes %+v", last, e)
		}
		var ev LogEvent
		if err := json.Unmarshal([]byte(e.data), &ev); err != nil || ev.Tenant != "acme" || strconv.FormatUint(ev.Seq, 10) != e.id || ev.Transition.Actor == "" {
			t.Errorf("%+v: %v", e, err)
		}
		got, last = append(got, e.id), e.id
		stop()
	}
	if !slices.Equal(got, want) {
		t.Errorf("a client that comes back sees %v, want %v", got, want)
	}
	// And live: one connection that is there all the time.
	r, _ = b.follow(b.url, "?session=live", "")
	next := b.events(r)
	if _, ok := next(); !ok {
		t.Fatal("the stream ends")
	}
	b.record("acme/dead", statekv.Versioned{})
	v := b.record("acme/live", statekv.Versioned{})
	if e, ok := next(); !ok || e.id != strconv.FormatUint(v.Rev.Seq(), 10) {
		t.Errorf("live comes %+v, want %d", e, v.Rev.Seq())
	}
}

func TestWhereTheLogBegins(t *testing.T) {
	t.Parallel()
	state := jetstream.StreamState{FirstSeq: 10, LastSeq: 20}
	for _, c := range []struct {
		last, query string
		next        uint64
		gap         *Gap
		wrong       bool
	}{
		{"", "", 21, nil, false},
		{"", "?after=0", 1, nil, false}, // all that there is
		{"", "?after=9", 10, nil, false},
		{"", "?after=3", 10, &Gap{4, 9}, false},
		{"", "?after=20", 21, nil, false},
		{"15", "?after=0", 16, nil, false},
		{"25", "", 21, &Gap{21, 25}, false},
		{"x", "", 0, nil, true},
		{"-1", "", 0, nil, true},
		{"18446744073709551615", "", 0, nil, true},
	} {
		r := httptest.NewRequest("GET", "/api/v1/events"+c.query, nil)
		r.Header.Set("Last-Event-ID", c.last)
		got, p := place(r, state)
		if (p != nil) != c.wrong || got.next != c.next || (got.gap == nil) != (c.gap == nil) || got.gap != nil && *got.gap != *c.gap {
			t.Errorf("%q%s: %+v, %v", c.last, c.query, got, p)
		}
	}
}

func TestStreamsAreWithinTheToken(t *testing.T) {
	t.Parallel()
	one := schemas.WhoAmI{Actor: "token:b", Role: schemas.TokenClient, Tenant: "acme", Session: "web"}
	all := schemas.WhoAmI{Actor: "token:c", Role: schemas.TokenOperator}
	for _, c := range []struct {
		me              schemas.WhoAmI
		tenant, session string
		want            string
	}{
		{all, "", "", "*/*"},
		{all, "acme", "", "acme/*"},
		{all, "acme", "web", "acme/web"},
		{all, "", "web", "default/web"},
		{all, "*", "", ""},
		{all, "a.b", "", ""},
		{all, "acme", ">", ""},
		{acme, "", "", "acme/*"},
		{acme, "acme", "", "acme/*"},
		{acme, "", "web", "acme/web"},
		{acme, "other", "", ""},
		{one, "", "", "acme/web"},
		{one, "acme", "web", "acme/web"},
		{one, "", "other", ""},
		{one, "other", "web", ""},
	} {
		tenant, session, p := scope(c.me, c.tenant, c.session)
		got := ""
		if p == nil {
			got = tenant + "/" + session
		}
		if got != c.want {
			t.Errorf("%+v of %s asks for %q, %q: %q, want %q", c.me.Role, c.me.Tenant, c.tenant, c.session, got, c.want)
		}
	}
}

func TestWhoMayFollow(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.isOf(map[string]schemas.WhoAmI{"dpt_p": {Actor: "token:p", Role: schemas.TokenPublisher, Tenant: "acme"}})
	for _, path := range []string{"/api/v1/events", "/api/v1/watch"} {
		b.refused("a token that there isn't", b.do("GET", path, ""), http.StatusUnauthorized)
		b.refused("a publisher", b.do("GET", path, "", "Authorization: Bearer dpt_p"), http.StatusForbidden)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStreams()
	var ends []func()
	for i := range maxPerOne {
		_, end, p := s.begin(t.Context(), "token:a")
		if p != nil {
			t.Fatalf("stream %d: %v", i, p)
		}
		ends = append(ends, end)
	}
	if _, _, p := s.begin(t.Context(), "token:a"); p == nil || p.Status != http.StatusTooManyRequests {
		t.Errorf("one too many of a token: %v", p)
	}
	ctx, end, p := s.begin(t.Context(), "token:b")
	if p != nil {
		t.Fatalf("one of another token: %v", p)
	}
	ends[0]()
	if _, again, p := s.begin(t.Context(), "token:a"); p != nil {
		t.Errorf("after one has ended: %v", p)
	} else {
		again()
	}
	for i := range maxStreams {
		_, _, p = s.begin(t.Context(), strconv.Itoa(i))
	}
	if p == nil || p.Status != http.StatusServiceUnavailable {
		t.Errorf("one too many of all: %v", p)
	}
	end()
	if ctx.Err() == nil {
		t.Error("a stream goes on that has ended")
	}
}

// streams end when the gateway is to end.
func TestStreamsEndWithTheGateway(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.isOf(map[string]schemas.WhoAmI{"dpt_a": acme})
	ctx, stop := context.WithCancel(t.Context())
	l, err := Listen(ctx, ListenOptions{Address: "127.0.0.1:0"})
	b.must(err)
	served := make(chan error, 1)
	go func() { served <- b.gate.Serve(ctx, l) }()
	r, _ := b.follow("http://"+l.Addr().String(), "", "")
	next := b.events(r)
	if _, ok := next(); !ok {
		t.Fatal("the stream ends at once")
	}
	stop()
	if e, ok := next(); ok {
		t.Errorf("after the end comes %+v", e)
	}
	if err := <-served; err != nil {
		t.Errorf("serving ends with %v", err)
	}
}

// A client that doesn't read is cut, and what feeds its stream ends.
func TestSlowClientsAreCut(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.gate.streams.writeWait = time.Second
	fed := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.gate.stream(w, r, acme, event{}, func(_ context.Context, send func(event) error) error {
			for {
				if err := send(event{data: strings.Repeat("a", 1<<20)}); err != nil {
					fed <- err
					return err
				}
			}
		})
	}))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	b.must(err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	b.must(err)
	select {
	case err := <-fed:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the feed ends with %v", err)
		}
	case <-time.After(limit):
		t.Fatal("the client is fed for ever")
	}
}

// The same of an answer that is no stream.
func TestSlowReadersAreCut(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.gate.answerWait = time.Second
	ended := make(chan error, 1)
	srv := httptest.NewServer(b.gate.noted(logTo(io.Discard), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	})))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	b.must(err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	b.must(err)
	select {
	case <-ended:
	case <-time.After(limit):
		t.Fatal("the client is written to for ever")
	}
}

// A quiet stream gives signs of life, and ends when its token does.
func TestStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.gate.streams.keepAlive = 10 * time.Millisecond
	var revoked atomic.Bool
	b.answers("whoami", func(asked) (any, *schemas.APIError) {
		if revoked.Load() {
			return nil, schemas.FailedError(schemas.ReasonNoToken, "it was revoked")
		}
		return acme, nil
	})
	r, _ := b.follow(b.url, "", "")
	lines := bufio.NewReader(r.Body)
	for alive := false; !alive; {
		line, err := lines.ReadString('\n')
		b.must(err)
		alive = line == ":\n"
	}
	revoked.Store(true)
	rest, err := io.ReadAll(lines)
	b.must(err)
	if !strings.Contains(string(rest), "event: error\ndata: ") || !strings.Contains(string(rest), `"reason":"no_token"`) {
		t.Errorf("the stream ends with %q", rest)
	}
	me := acme
	me.Expires = time.Now().Add(-time.Second)
	revoked.Store(false)
	if p := b.gate.still(t.Context(), me); p == nil || p.Status != http.StatusUnauthorized {
		t.Errorf("after the token has expired: %v", p)
	}
}
