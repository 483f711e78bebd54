package attack

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// generation is where a session finds its activity port.
const generation = "/run/diapause/generation"

// say speaks NATS's protocol by hand, as a client may that keeps no rule, and gives what it was refused
// with. Lines are ended for it.
func say(c net.Conn, connect string, lines ...string) error {
	if err := c.SetDeadline(time.Now().Add(patience / 2)); err != nil {
		return err
	}
	if connect == "" {
		connect = `{"verbose":false,"pedantic":false}`
	}
	text := "CONNECT " + connect + "\r\n" + strings.Join(append(lines, "PING"), "\r\n") + "\r\n"
	var refused error
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, text)
		written <- err
	}()
	for in := bufio.NewReaderSize(c, 1<<20); ; {
		line, err := in.ReadString('\n')
		switch kind, rest, _ := strings.Cut(line, " "); {
		case kind == "-ERR":
			words, _, _ := strings.Cut(strings.Trim(strings.TrimSpace(rest), "'"), " for ")
			refused = errors.Join(refused, Refusal(words))
		case strings.TrimSpace(line) == "PONG":
			return errors.Join(refused, <-written)
		}
		if err != nil && refused != nil {
			return refused
		}
		if err != nil {
			return Refusal("the connection is closed")
		}
	}
}

func publication(subject, reply string, size int) string {
	words := strings.Fields(subject + " " + reply)
	return fmt.Sprintf("PUB %s %d\r\n%s", strings.Join(words, " "), size, strings.Repeat("x", size))
}

func (f Facts) saying(service, connect string, lines ...string) error {
	c, err := net.DialTimeout("tcp", f.Services[service], patience/2)
	if err != nil {
		return err
	}
	defer c.Close()
	return say(c, connect, lines...)
}

// toPort speaks to the activity port of this session.
func toPort(connect string, lines func(f Facts) []string) func(Facts) error {
	return func(f Facts) error {
		text, err := os.ReadFile(generation)
		if err != nil {
			return err
		}
		var at struct{ URL string }
		if err := json.Unmarshal(text, &at); err != nil {
			return err
		}
		f.Services = map[string]string{Plain: strings.TrimPrefix(at.URL, "nats://")}
		return f.saying(Plain, connect, lines(f)...)
	}
}

// port is what a session may say at its activity port.
func port() []Attempt {
	violation := []string{"Permissions Violation"}
	pub := func(what, subject string) Attempt {
		return Attempt{What: "activity port: " + what, Only: private, Want: violation, Try: toPort("", func(f Facts) []string {
			return []string{publication(strings.NewReplacer("NAME", f.Name, "OTHER", f.Other).Replace(subject), "", 2)}
		})}
	}
	sub := func(what, subject string) Attempt {
		return Attempt{What: "activity port: " + what, Only: private, Want: violation, Try: toPort("", func(Facts) []string { return []string{"SUB " + subject + " 1"} })}
	}
	return []Attempt{
		pub("publish for another session", "diapause.v1.activity.default.OTHER.input"),
		pub("publish for all sessions", "diapause.v1.activity.default.*.input"),
		pub("publish for a session whose name begins alike", "diapause.v1.activity.default.NAMEx.input"),
		pub("ask for a verb", "diapause.v1.api.rm"),
		pub("write a record", "$KV.DIAPAUSE_sessions.default.OTHER"),
		pub("ask JetStream", "$JS.API.STREAM.PURGE.KV_DIAPAUSE_sessions"),
		sub("listen to everything", ">"),
		sub("listen to all answers", "_INBOX.>"),
		{What: "activity port: send a large message", Only: private, Want: []string{"Maximum Payload Violation"}, Try: toPort("", func(f Facts) []string {
			return []string{publication("diapause.v1.activity.default."+f.Name+".input", "", 1<<20)}
		})},
		{What: "activity port: speak another protocol", Only: private, Want: []string{"Unknown Protocol Operation"}, Try: toPort("", func(Facts) []string { return []string{"RS+ x y"} })},
	}
}

// clients are what a client of the NATS server may say without credentials.
func clients() []Attempt {
	violation := []string{"Permissions Violation"}
	pub := func(what, subject string) Attempt {
		return Attempt{What: "NATS: " + what, Want: violation, Try: func(f Facts) error {
			return f.saying(Plain, "", publication(strings.ReplaceAll(subject, "NAME", f.Name), "", 2))
		}}
	}
	sub := func(what, subject string) Attempt {
		return Attempt{What: "NATS: " + what, Want: violation, Try: func(f Facts) error { return f.saying(Plain, "", "SUB "+subject+" 1") }}
	}
	denied := []string{"Authorization Violation"}
	guess := func(what, connect string) Attempt {
		return Attempt{What: "NATS: " + what, Want: denied, Try: func(f Facts) error { return f.saying(Plain, connect) }}
	}
	return []Attempt{
		pub("ask for a verb", "diapause.v1.api.rm"),
		pub("ask for a verb as another", "diapause.v1.as.client.rm"),
		pub("give an order to the worker", "diapause.v1.command.host.default.NAME"),
		pub("open a connection into a session", "diapause.v1.host.host.dial"),
		pub("say what state a session has", "diapause.v1.session.default.NAME"),
		pub("write a record", "$KV.DIAPAUSE_sessions.default.NAME"),
		pub("write activity behind the door", "diapause.v1.stored.1.default.NAME.input"),
		pub("list streams", "$JS.API.STREAM.LIST"),
		pub("purge a stream", "$JS.API.STREAM.PURGE.KV_DIAPAUSE_sessions"),
		pub("acknowledge for others", "$JS.ACK.x.y.1.1.1.1.1"),
		pub("ask the server", "$SYS.REQ.SERVER.PING"),
		pub("answer a request", "_INBOX.x.y"),
		sub("listen to everything", ">"),
		sub("listen to activity", "diapause.v1.activity.>"),
		sub("listen to answers", "_INBOX.>"),
		sub("listen to requests", "diapause.v1.api.>"),
		guess("guess a user", `{"user":"system","pass":"system"}`),
		guess("guess the user of the daemon", `{"user":"in-process","pass":""}`),
		guess("guess a token", `{"auth_token":"x"}`),
		guess("guess a key", `{"nkey":"UAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","sig":"AAAA"}`),
		{What: "NATS: send a large message", Want: []string{"Maximum Payload Violation"}, Try: func(f Facts) error {
			return f.saying(Plain, "", publication("diapause.v1.activity.default."+f.Name+".input", "", 2<<10))
		}},
		{What: "NATS: credentials' door without TLS", Want: []string{"Secure Connection - TLS Required"}, Try: func(f Facts) error { return f.saying(Secure, "") }},
		{What: "NATS: credentials' door with TLS, without a key", Want: denied, Try: secured},
	}
}

func secured(f Facts) error {
	c, err := net.DialTimeout("tcp", f.Services[Secure], patience/2)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := bufio.NewReaderSize(one{c}, 1).ReadString('\n'); err != nil {
		return err
	}
	return say(tls.Client(c, &tls.Config{InsecureSkipVerify: true}), "")
}

// one reads byte by byte, so that nothing behind a line is taken.
type one struct{ r io.Reader }

func (o one) Read(b []byte) (int, error) { return o.r.Read(b[:min(1, len(b))]) }
