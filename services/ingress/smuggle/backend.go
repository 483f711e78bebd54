package smuggle

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// Backend is a session's server that keeps what it is sent. It answers each request with 200 and "ok".
type Backend struct {
	mu  sync.Mutex
	got []byte
}

// Dial connects to it. A request that it has answered was kept.
func (b *Backend) Dial(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go b.serve(theirs) // until ours is closed
	return ours, nil
}

// Write keeps what is read.
func (b *Backend) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, p...)
	return len(p), nil
}

// take gives what was read since the last take.
func (b *Backend) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := string(b.got)
	b.got = nil
	return got
}

func (b *Backend) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(io.TeeReader(c, b))
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if r.Header.Get("Expect") != "" {
			if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return
			}
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		end := ""
		if r.Close {
			end = "Connection: close\r\n"
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n"+end+"Content-Length: 2\r\n\r\nok"); err != nil || r.Close {
			return
		}
	}
}
