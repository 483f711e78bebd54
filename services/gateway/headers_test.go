package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A header that is too large is a problem, and one that is much too large isn't read.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	at := strings.TrimPrefix(b.serve(b.gate), "http://")
	ask := func(line string, size int) *http.Response {
		t.Helper()
		conn, err := net.Dial("tcp", at)
		b.must(err)
		t.Cleanup(func() { conn.Close() })
		go func() { // which may be reset before the end
			_, _ = io.WriteString(conn, line+" HTTP/1.1\r\nHost: localhost\r\nX-Large: "+strings.Repeat("a", size)+"\r\n\r\n")
		}()
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		b.must(err)
		return r
	}
	const path = "GET /api/v1/docs"
	if r := ask(path, maxHeader-200); r.StatusCode != http.StatusOK {
		t.Errorf("a header of the most gives %d", r.StatusCode)
	}
	if r := b.refused("a large header", ask(path, maxHeader), http.StatusRequestHeaderFieldsTooLarge); r.Code != "usage" {
		t.Errorf("it says %+v", r)
	}
	b.refused("a long path", ask(path+"?"+strings.Repeat("a", maxHeader), 0), http.StatusRequestHeaderFieldsTooLarge)
	if r := ask(path, 100<<20); r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 100 MB gives %d", r.StatusCode)
	}
}
