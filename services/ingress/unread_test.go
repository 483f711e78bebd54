package ingress

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// connectTo opens a connection that gives up in the end.
func connectTo(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Who may not reach a port has an answer before the body was sent, and the connection ends.
func TestStrangersBodiesArentRead(t *testing.T) {
	f := newFleet(t, http.NotFoundHandler())
	f.denied = schemas.FailedError(schemas.ReasonDenied, "no")
	at := serve(t, f.options())
	var all sync.WaitGroup
	for _, head := range []string{
		"POST / HTTP/1.1\r\nHost: " + webHost + "\r\n", "POST / HTTP/1.0\r\nHost: " + webHost + "\r\n", "POST / HTTP/1.1\r\nHost: evil.example\r\n",
		"POST /s/acme/web/80/ HTTP/1.1\r\nHost: localhost\r\n",
	} {
		c := connectTo(t, at)
		if _, err := io.WriteString(c, head+"Content-Length: 100000\r\n\r\npart"); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			in := bufio.NewReader(c)
			r, err := http.ReadResponse(in, nil)
			if err != nil || r.StatusCode != http.StatusForbidden && r.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("%q: %v, %v", head, r, err)
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Errorf("%q: %v", head, err)
			}
			if rest, err := io.ReadAll(in); len(rest) != 0 || err != nil {
				t.Errorf("%q: then %q, %v", head, rest, err)
			}
		})
	}
	all.Wait()
	if n := f.asked("ensure") + f.asked("hold") + f.asked("dial"); n != 0 {
		t.Errorf("a stranger has %d things done", n)
	}
}

// deadlines notes those of a connection.
type deadlines struct {
	net.Conn
	last time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.last = t
	return d.Conn.SetReadDeadline(t)
}

type noted struct {
	net.Listener
	all chan *deadlines
}

func (l noted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	d := &deadlines{Conn: c}
	l.all <- d
	return d, nil
}

// An upload of who may takes as long as it takes.
func TestSlowUploads(t *testing.T) {
	came := make(chan time.Time)
	var conn *deadlines
	f := newFleet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := make([]byte, 5)
		_, err := io.ReadFull(r.Body, first)
		came <- conn.last // of the proxy's, which waits for more just now
		rest, err2 := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s%s %v %v", first, rest, err, err2)
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan *deadlines, 1)
	p := New(f.options())
	defer p.Close()
	s := &http.Server{Handler: p}
	go func() { _ = s.Serve(noted{l, all}) }() // until it is closed
	defer s.Close()
	c := connectTo(t, l.Addr().String())
	conn = <-all
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: "+webHost+"\r\nContent-Length: 10\r\n\r\nfirst"); err != nil {
		t.Fatal(err)
	}
	if at := <-came; !at.IsZero() {
		t.Errorf("it has to end at %s", at)
	}
	if _, err := io.WriteString(c, " rest"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r.Body); string(text) != "first rest <nil> <nil>" || err != nil || r.Close {
		t.Errorf("it comes to %q, %v, closed %v", text, err, r.Close)
	}
}

// heads is a session whose server reads no body. Its connections stay open until the end of the test: one that ended before
// its answer was read would be one that broke.
type heads struct {
	*fleet
	end <-chan struct{}
}

func (h heads) Dial(context.Context, schemas.View, uint16) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		var head []byte
		for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, one[0]) {
			if _, err := theirs.Read(one); err != nil {
				return
			}
		}
		_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmine") // as the client's end tells
		<-h.end
	}()
	return ours, nil
}

// A session that answers without reading leaves the connection to the next request.
func TestUnwantedBodies(t *testing.T) {
	f := newFleet(t, nil)
	o := f.options()
	o.Dialer = heads{f, t.Context().Done()}
	c := connectTo(t, serve(t, o))
	in := bufio.NewReader(c)
	for _, rest := range []string{
		fmt.Sprintf("Content-Length: 100000\r\n\r\n%0100000d", 0), fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\nC350\r\n%050000d\r\nC350\r\n%050000d\r\n0\r\n\r\n", 0, 0), "\r\n",
	} {
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: "+webHost+"\r\n"+rest); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%.40q: %v", rest, err)
		}
		if got, err := io.ReadAll(r.Body); string(got) != "mine" || err != nil || r.Close {
			t.Errorf("%.40q gives %q, %v, closed %v", rest, got, err, r.Close)
		}
	}
}

// early is a session that says that it will answer, many times, before it does.
type early struct{ *fleet }

func (early) Dial(context.Context, schemas.View, uint16) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		if _, err := http.ReadRequest(bufio.NewReader(theirs)); err != nil {
			return
		}
		for range 2000 {
			if _, err := io.WriteString(theirs, "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nDiapause-State: x\r\n\r\n"); err != nil {
				return
			}
		}
		_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmine") // as the client's end tells
	}()
	return ours, nil
}

// Many answers before the answer are passed on one by one, and the answer is the session's.
func TestManyEarlyAnswers(t *testing.T) {
	f := newFleet(t, nil)
	o := f.options()
	o.Dialer = early{f}
	c := connectTo(t, serve(t, o))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+webHost+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for n := 0; ; n++ {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("after %d: %v", n, err)
		}
		if r.StatusCode == http.StatusEarlyHints && n < 2000 {
			continue
		}
		if text, err := io.ReadAll(r.Body); r.StatusCode != http.StatusOK || string(text) != "mine" || err != nil {
			t.Errorf("after %d it gives %d %q, %v", n, r.StatusCode, text, err)
		}
		return
	}
}

// A session that answers before it has all of a body ends the connection, if the rest doesn't come: what comes
// later is no request.
func TestStalledBodiesEndTheConnection(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "enough") }))
	c := connectTo(t, serve(t, f.options()))
	if _, err := io.WriteString(c, "POST /x HTTP/1.1\r\nHost: "+webHost+"\r\nContent-Length: 100\r\n\r\npart"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r.Body); string(got) != "enough" || err != nil {
		t.Errorf("the answer is %q, %v", got, err)
	}
	if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
		t.Errorf("then %q, %v", rest, err)
	}
}
