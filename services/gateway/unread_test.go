package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// raw sends text to the gateway, and reads the answer and the end of the connection.
func (b *bench) raw(text string) (status int, rest []byte, err error) {
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		return 0, nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return 0, nil, err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return 0, nil, err
	}
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, nil, err
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return r.StatusCode, nil, err
	}
	rest, err = io.ReadAll(in)
	return r.StatusCode, rest, err
}

// Who isn't known has an answer before the body was sent, and the connection ends.
func TestStrangersBodiesArentRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.gate.allowed.bodyWait = time.Hour
	b.isOf(map[string]schemas.WhoAmI{"dpt_b": {Actor: "token:b"}})
	b.answers("suspend", func(a asked) (any, *schemas.APIError) { return schemas.View{Name: a.Name}, nil })
	const path = "POST /api/v1/sessions/acme.web/suspend HTTP/1.1\r\nContent-Type: application/json\r\n"
	var all sync.WaitGroup
	for what, c := range map[string]struct {
		head   string
		status int
	}{
		"no token":       {path + "Host: localhost\r\n", 401},
		"no such token":  {path + "Host: localhost\r\nAuthorization: Bearer dpt_x\r\n", 401},
		"another scheme": {path + "Host: localhost\r\nAuthorization: Basic eDp5\r\n", 401},
		"another host":   {path + "Host: evil.example\r\nAuthorization: Bearer dpt_a\r\n", 421},
		"another origin": {path + "Host: localhost\r\nOrigin: http://evil.example\r\nAuthorization: Bearer dpt_a\r\n", 403},
		"nothing there":  {"POST /nothing HTTP/1.1\r\nHost: localhost\r\n", 401},
	} {
		for _, body := range []string{"Content-Length: 1000\r\n\r\n{", "Content-Length: 1000000000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n4\r\n{   ", "Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n"} {
			all.Go(func() {
				status, rest, err := b.raw(c.head + body)
				if status != c.status || len(rest) != 0 || err != nil {
					t.Errorf("%s, %.40q: status %d, then %q, %v; want %d", what, body, status, rest, err, c.status)
				}
			})
		}
	}
	all.Wait()
	if status, _, err := b.raw(path + "Connection: close\r\nHost: localhost\r\nAuthorization: Bearer dpt_b\r\nContent-Length: 2\r\n\r\n{}"); status != 200 || err != nil {
		t.Errorf("a token that is known: %d, %v", status, err)
	}
}

// What anyone may send is small.
func TestLoginsAreSmall(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.refused("a large login", b.do("POST", prefix+"/login", fmt.Sprintf(`{"code":%q}`, strings.Repeat("a", maxOpen)), "Authorization: "), http.StatusRequestEntityTooLarge)
}

// A browser whose login has ended sends what it had with its new code, which counts.
func TestLoginAfterALogin(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.isOf(nil)
	b.answers("login", func(a asked) (any, *schemas.APIError) {
		return schemas.TokenView{Token: a.token + ".page", Role: schemas.TokenLogin, As: schemas.TokenOwner, Expires: time.Now().Add(time.Hour)}, nil
	})
	if r := b.do("POST", prefix+"/login", `{"code":"new"}`, "Authorization: ", "Cookie: "+loginCookie+"=old", "Diapause-Page: old"); r.StatusCode != http.StatusOK {
		t.Errorf("status %d", r.StatusCode)
	}
}
