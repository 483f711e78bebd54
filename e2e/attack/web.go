package attack

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// web are the attempts at the port of HTTP.
func web() []Attempt {
	all := []Attempt{}
	for _, a := range []struct{ what, head, want string }{
		{"ask without a token", "GET /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\n", "401"},
		{"ask with a token that was made up", "GET /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dpt_guess\r\n", "401"},
		{"ask by the name of another host", "GET /api/v1/sessions HTTP/1.1\r\nHost: example.com\r\n", "421"},
		{"ask as a page of another origin", "DELETE /api/v1/sessions/NAME HTTP/1.1\r\nHost: localhost\r\nOrigin: http://example.com\r\n", "403"},
		{"say more before a request than it takes", "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n", "431"},
	} {
		all = append(all, Attempt{What: "HTTP: " + a.what, Want: []string{a.want}, Try: func(f Facts) error {
			return asks(f.Services[HTTP], strings.ReplaceAll(a.head, "NAME", f.Name))
		}})
	}
	return append(all,
		Attempt{What: "HTTP: try ever more tokens", Want: []string{"429"}, Try: guesses},
		Attempt{What: "HTTP: open ever more connections, and say nothing", Want: []string{closed}, Try: quiet})
}

// reached connects for half of the time that an attempt has.
func reached(at string) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", at, patience/2)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(patience / 2))
}

// asks sends the head of a request, and gives the status that refuses it.
func asks(at, head string) error {
	c, err := reached(at)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte(head + "Connection: close\r\n\r\n")); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode < http.StatusBadRequest {
		return nil
	}
	return Refusal(fmt.Sprint(answer.StatusCode))
}

// guesses tries tokens until it is told to try no more.
func guesses(f Facts) (err error) {
	for n := range 1000 {
		err = asks(f.Services[HTTP], fmt.Sprintf("GET /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dpt_guess%d\r\n", n))
		if err == nil || err.Error() != "401" {
			return err
		}
	}
	return err
}

// quiet opens more connections than one user may have: the last is closed, long before one would be that says nothing.
func quiet(f Facts) error {
	var last net.Conn
	for range 4200 {
		c, err := net.DialTimeout("tcp", f.Services[HTTP], patience/2)
		if err != nil {
			return err
		}
		defer c.Close()
		last = c
	}
	if err := last.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := last.Read(make([]byte, 1)); err == nil {
		return nil
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		return unix.ETIMEDOUT
	}
	return Refusal(closed)
}
