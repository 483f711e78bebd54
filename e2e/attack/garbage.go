package attack

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// garbled is what a client says that keeps no rule of NATS's protocol, and the refusal.
type garbled struct{ what, line, want string }

const (
	parserError = "Parser Error"
	unknownOp   = "Unknown Protocol Operation"
	tooLong     = "Maximum Control Line Exceeded"
	closed      = "the connection is closed"
	// The port refuses what follows, the server the user; either may come first.
	refusals = "Permissions Violation or Authorization Violation"
	either   = closed + " or " + unknownOp
)

// tell gives the attempts to say them to the daemon's server, and to the activity port.
func tell(all []garbled, name string, only string, to func(connect string, lines func(Facts) []string) func(Facts) error) (out []Attempt) {
	for _, g := range all {
		out = append(out, Attempt{What: name + ": " + g.what, Only: only, Want: strings.Split(g.want, " or "), Try: to("", func(f Facts) []string {
			return []string{strings.ReplaceAll(g.line, "NAME", f.Name)}
		})})
	}
	return out
}

const ownSubject = "diapause.v1.activity.default.NAME.input"

// garbledPort is said at the activity port.
func garbledPort() []Attempt {
	return append(tell([]garbled{
		{"a size below zero", "PUB " + ownSubject + " -1\r\n", parserError},
		{"a size beyond all numbers", "PUB " + ownSubject + " 99999999999999999999\r\n", parserError},
		{"a message without a subject", "PUB 0\r\n", parserError},
		{"a header larger than its message", "HPUB " + ownSubject + " 20 2\r\nxx", closed},
		{"a header of a size below zero", "HPUB " + ownSubject + " -1 2\r\nxx", closed},
		{"more than the size says", "PUB " + ownSubject + " 1\r\nxyz", parserError},
		{"a subject longer than a line", "PUB " + ownSubject + strings.Repeat("x", 8<<10) + " 0\r\n", tooLong},
		{"another name behind a line's end", "PUB " + ownSubject + "\rPUB diapause.v1.api.rm 2\r\n{}", parserError},
		{"connect again with a user", "CONNECT {\"user\":\"in-process\",\"pass\":\"x\"}\r\nSUB > 1", refusals},
		{"listen in a group to requests", "SUB diapause.v1.api.> group 1", "Permissions Violation"},
		{"speak as a server", "INFO {}", unknownOp},
		{"speak HTTP", "GET / HTTP/1.1", unknownOp},
	}, "activity port", private, toPort),
		Attempt{What: "activity port: speak TLS", Only: private, Want: []string{closed}, Try: portTLS},
		Attempt{What: "activity port: keep ever more connections open", Only: private, Want: []string{closed}, Try: portFull})
}

// garbledClient is said at the daemon's door for those without credentials.
func garbledClient() []Attempt {
	to := func(connect string, lines func(Facts) []string) func(Facts) error {
		return func(f Facts) error { return f.saying(Plain, connect, lines(f)...) }
	}
	return append(tell([]garbled{
		{"a size below zero", "PUB " + ownSubject + " -1\r\n", closed},
		{"a size beyond all numbers", "PUB " + ownSubject + " 99999999999999999999\r\n", closed},
		{"a header larger than its message", "HPUB " + ownSubject + " 20 2\r\nxx", closed},
		{"more than the size says", "PUB " + ownSubject + " 1\r\nxyz", either},
		{"a subject longer than a line", "PUB " + ownSubject + strings.Repeat("x", 16<<10) + " 0\r\n", strings.ToLower(tooLong)},
		{"a line's end in a subject, which breaks who hears it", "PUB " + ownSubject + "\rPUB diapause.v1.api.rm 2\r\n{}", either},
		{"the same where answers go", "PUB " + ownSubject + " x\ry 2\r\n{}", either},
		{"connect again as the daemon", "CONNECT {\"user\":\"in-process\",\"pass\":\"x\"}", "Authorization Violation"},
		{"speak as a route", "RS+ DIAPAUSE >", unknownOp},
		{"speak as a leaf", "LS+ >", unknownOp},
		{"give a message as a server does", "MSG " + ownSubject + " 1 0\r\n", unknownOp},
		{"speak HTTP", "GET / HTTP/1.1", unknownOp},
	}, "NATS", "", to),
		Attempt{What: "NATS: open ever more connections, and say nothing", Want: []string{closed}, Try: silent(Plain)},
		Attempt{What: "NATS: the same at the door for credentials", Want: []string{closed}, Try: silent(Secure)})
}

// portURL is where the activity port of this session is.
func portURL() (string, error) {
	text, err := os.ReadFile(generation)
	if err != nil {
		return "", err
	}
	var at struct{ URL string }
	err = json.Unmarshal(text, &at)
	return strings.TrimPrefix(at.URL, "nats://"), err
}

func portTLS(Facts) error {
	at, err := portURL()
	if err != nil {
		return err
	}
	c, err := reached(at)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := one4(c); err != nil {
		return err
	}
	// A handshake is no line: it's ended by hand.
	if err := tls.Client(finished{c}, &tls.Config{InsecureSkipVerify: true}).Handshake(); err != nil {
		return Refusal(closed)
	}
	return nil
}

// one4 reads the first line of a server.
func one4(c net.Conn) (string, error) {
	b := make([]byte, 1)
	var line strings.Builder
	for {
		if _, err := io.ReadFull(c, b); err != nil {
			return line.String(), err
		}
		if line.WriteByte(b[0]); b[0] == '\n' {
			return line.String(), nil
		}
	}
}

// finished sends a line's end behind all that is written.
type finished struct{ net.Conn }

func (f finished) Write(b []byte) (int, error) {
	n, err := f.Conn.Write(b)
	if err == nil {
		_, err = f.Conn.Write([]byte("\r\n"))
	}
	return n, err
}

// portFull opens connections until one is closed.
func portFull(Facts) error {
	at, err := portURL()
	if err != nil {
		return err
	}
	return crowd(at, 1000)
}

// silent opens connections until one is closed, before it says anything.
func silent(service string) func(Facts) error {
	return func(f Facts) error { return crowd(f.Services[service], 5000) }
}

func crowd(at string, most int) error {
	for range most {
		c, err := net.DialTimeout("tcp", at, patience/2)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(patience / 2)); err != nil {
			return err
		}
		if _, err := one4(c); errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
			return Refusal(closed)
		} else if err != nil {
			return err
		}
	}
	return nil
}
