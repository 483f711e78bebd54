package ingress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// An answer arrives as it is written, and is a lease until it ends, whether anything is sent or not.
func TestStreams(t *testing.T) {
	next := make(chan string)
	f := newFleet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for line := range next {
			_, _ = io.WriteString(w, line)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	b := newBrowser(t, serve(t, f.options()))
	answer, err := b.client.Get("http://" + webHost + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for _, want := range []string{"data: 1\n", "data: 2\n"} {
		next <- want
		if got, err := lines.ReadString('\n'); got != want {
			t.Fatalf("%q arrives, %v", got, err)
		}
		if f.leases() != 1 {
			t.Error("the stream is no lease")
		}
	}
	close(next)
	until(t, "the lease ends", func() bool { return f.leases() == 0 })
}

// upgrade is a server that echoes after 101, and says when a connection has ended.
func upgrade(ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Sec-WebSocket-Key") == "" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, err = io.Copy(conn, rw)
		ended <- err
	}
}

// An upgraded connection carries both ways, is a lease while it is silent, and ends when either end does or the
// proxy.
func TestUpgrades(t *testing.T) {
	ended := make(chan error, 1)
	f := newFleet(t, upgrade(ended))
	b := newBrowser(t, serve(t, f.options()))
	c := b.dial()
	fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s\r\n%s\r\n", webHost, strings.ReplaceAll(ws, "\n", "\r\n"))
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("it gives %v, %v", answer, err)
	}
	for _, text := range []string{"hello\n", "again\n"} {
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if got, err := in.ReadString('\n'); got != text {
			t.Fatalf("%q comes back, %v", got, err)
		}
		if f.leases() != 1 || f.whys[0].Class != WebSocket {
			t.Errorf("there are %d leases, it was resumed for %v", f.leases(), f.whys)
		}
	}
	c.Close()
	<-ended
	until(t, "the lease ends", func() bool { return f.leases() == 0 })
}

// A server may answer while a request is still being sent, and trailers go both ways, over HTTP/1.1 and HTTP/2; gRPC
// reaches the session as HTTP/2.
func TestBothWays(t *testing.T) {
	f := newFleet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // over HTTP/2 it always is
		w.Header().Set("Trailer", "Grpc-Status")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			_, _ = io.WriteString(w, line)
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				break
			}
		}
		w.Header().Set("Grpc-Status", fmt.Sprintf("%d %s", r.ProtoMajor, r.Trailer.Get("Checksum")))
	}))
	address := serve(t, f.options())
	for what, c := range map[string]struct {
		two     bool
		content string
		want    string
	}{
		"HTTP/1.1": {false, "text/plain", "1 sum"}, "HTTP/2": {true, "text/plain", "1 sum"}, "gRPC": {true, "application/grpc+proto", "2 sum"},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBrowser(t, address)
			if c.two {
				p := new(http.Protocols)
				p.SetUnencryptedHTTP2(true)
				b.client.Transport.(*http.Transport).Protocols = p
			}
			body, feed := io.Pipe()
			r, err := http.NewRequest(http.MethodPost, "http://"+webHost+"/", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", c.content)
			r.Header.Set("TE", "trailers")
			r.Trailer = http.Header{"Checksum": nil}
			answer, err := b.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			in := bufio.NewReader(answer.Body)
			for _, text := range []string{"one\n", "two\n"} {
				if _, err := io.WriteString(feed, text); err != nil {
					t.Fatal(err)
				}
				if got, err := in.ReadString('\n'); got != text {
					t.Fatalf("%q comes back, %v", got, err)
				}
			}
			r.Trailer.Set("Checksum", "sum")
			feed.Close()
			if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 || answer.Trailer.Get("Grpc-Status") != c.want {
				t.Errorf("at its end come %q, %v, %v", rest, err, answer.Trailer)
			}
		})
	}
}

// A server that closes kept connections just when they are used again loses no request, of whichever method.
func TestKeptConnectionsDie(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var connections atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() { // answers one request, says that it would keep the connection, and closes at the next one
				defer c.Close()
				in := bufio.NewReader(c)
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				_, _ = in.ReadByte()
			}()
		}
	}()
	f := newFleet(t, nil)
	f.server = l.Addr().String()
	b := newBrowser(t, serve(t, f.options()))
	for i := range 20 {
		method, body := http.MethodGet, ""
		if i%2 == 1 {
			method, body = http.MethodPost, "text"
		}
		if got, err := b.ask(method, "http://"+webHost+"/", "", strings.NewReader(body)); err != nil || got.StatusCode != http.StatusOK || got.text != body {
			t.Fatalf("request %d gives %v, %v", i, got, err)
		}
	}
	f.set(schemas.Suspended)
	if got := b.must(http.MethodPost, "http://"+webHost+"/", "", strings.NewReader("x")); got.text != "x" {
		t.Errorf("after a suspend it gives %d: %s", got.StatusCode, got.text)
	}
	if n := f.asked("ensure"); n < 2 {
		t.Errorf("the session was asked for %d times", n)
	}
}

// What is sent in two ways of reading it reaches a session in one, or not at all; no host leads elsewhere than its
// name says.
func TestForged(t *testing.T) {
	var got atomic.Pointer[string]
	f := newFleet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it never arrived whole
		}
		text := r.Method + " " + r.RequestURI + " " + string(body)
		got.Store(&text)
	}))
	b := newBrowser(t, serve(t, f.options()))
	host := "Host: " + webHost + "\r\n"
	for what, c := range map[string]struct {
		raw, status, reaches string
	}{
		"two lengths":              {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "400", ""},
		"length and chunks":        {"POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n" + host + "\r\n", "", "POST / hello"},
		"chunks twice":             {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "501", ""},
		"chunks, misspelt":         {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501", ""},
		"chunks in another header": {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400", ""},
		"a negative length":        {"POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", "400", ""},
		"a chunk's size":           {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", "", ""},
		"two hosts":                {"GET / HTTP/1.1\r\n" + host + "Host: evil\r\n\r\n", "400", ""},
		"no host":                  {"GET / HTTP/1.1\r\n\r\n", "400", ""},
		"a host in the line":       {"GET http://evil/ HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", "421", ""},
		"ours in the line":         {"GET http://" + webHost + "/x HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n", "200", "GET /x "},
		"a name that begins so":    {"GET / HTTP/1.1\r\nHost: " + webHost + ".evil.com\r\nConnection: close\r\n\r\n", "421", ""},
		"rebound":                  {"GET /s/acme/web/80/ HTTP/1.1\r\nHost: evil.com\r\nConnection: close\r\n\r\n", "421", ""},
		"a user before the host":   {"GET / HTTP/1.1\r\nHost: " + webHost + "@evil\r\nConnection: close\r\n\r\n", "4", ""},
		"CONNECT":                  {"CONNECT " + webHost + ":80 HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", "405", ""},
		"a line in a header":       {"GET / HTTP/1.1\r\n" + host + "X: a\rSet-Cookie: b\r\n\r\n", "400", ""},
		"headers without end":      {"GET / HTTP/1.1\r\n" + host + strings.Repeat("X: "+strings.Repeat("a", 1000)+"\r\n", 200) + "\r\n", "431", ""},
		"no path":                  {"GET http:anything HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", "400", ""},
		"a way out of the path":    {"GET /s/acme/web/80/../../../x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "200", "GET /../../../x "},
		"a way into another's":     {"GET /s/acme/../other/80/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "404", ""},
	} {
		none := ""
		got.Store(&none)
		answer := b.raw(c.raw)
		if !strings.HasPrefix(answer, "HTTP/1.1 "+c.status) && !strings.HasPrefix(answer, "HTTP/1.0 "+c.status) || strings.TrimSpace(*got.Load()) != strings.TrimSpace(c.reaches) {
			t.Errorf("%s: the session gets %q; the answer is %s", what, *got.Load(), answer)
		}
		if strings.Contains(answer, "<html") {
			t.Errorf("%s: a program gets HTML: %s", what, answer)
		}
	}
}
