package attack

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// advertised are the attempts at the port that a host advertises for direct connections.
func advertised() []Attempt {
	noise := make([]byte, 64<<10)
	rand.Read(noise)
	hello := []byte("DIADIR\x01")
	grant := append(append(append(hello, noise[:32]...), 0, 22, byte(len("victim"))), "victim"...)
	var all []Attempt
	for _, a := range []struct {
		what string
		try  func(at string) error
	}{
		{"noise", plainly(noise)},
		{"speak HTTP", plainly([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))},
		{"speak NATS", plainly([]byte("CONNECT {}\r\nPING\r\n"))},
		{"a grant without TLS", plainly(grant)},
		{"TLS of version 1.2", func(at string) error { return secretly(at, tls.VersionTLS12, nil) }},
		{"TLS and nothing more", func(at string) error { return secretly(at, tls.VersionTLS13, nil) }},
		{"TLS and noise", func(at string) error { return secretly(at, tls.VersionTLS13, noise) }},
		{"TLS and HTTP", func(at string) error {
			return secretly(at, tls.VersionTLS13, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		}},
		{"a grant that was made up", func(at string) error { return secretly(at, tls.VersionTLS13, grant) }},
		{"a request where the grant should be", func(at string) error {
			return secretly(at, tls.VersionTLS13, []byte("R\x00\x00\x00\x0f{\"op\":\"attach\"}"))
		}},
		{"open 2,000 connections, and say nothing", idle},
	} {
		all = append(all, Attempt{What: "advertised port: " + a.what, Want: []string{closed}, Try: func(f Facts) error { return a.try(f.Services[Advertised]) }})
	}
	return all
}

// plainly says something and no more. All that it wants to hear is an alert of TLS.
func plainly(text []byte) func(at string) error {
	return func(at string) error {
		c, err := net.DialTimeout("tcp", at, patience/2)
		if err != nil {
			return err
		}
		defer c.Close()
		return said(c, text, c.(*net.TCPConn).CloseWrite)
	}
}

// secretly does the same in TLS of a version.
func secretly(at string, version uint16, text []byte) error {
	c, err := reached(at)
	if err != nil {
		return err
	}
	defer c.Close()
	in := tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
	if err := in.Handshake(); err != nil {
		return endsWith(err)
	}
	return said(in, text, in.CloseWrite)
}

func said(c net.Conn, text []byte, end func() error) error {
	if err := c.SetDeadline(time.Now().Add(patience / 2)); err != nil {
		return err
	}
	go func() {
		_, _ = c.Write(text) // the other end may not want to hear it all
		_ = end()
	}()
	answer, err := io.ReadAll(c)
	if _, inside := c.(*tls.Conn); len(answer) > 0 && (inside || !bytes.HasPrefix(answer, []byte{21, 3})) {
		return nil
	}
	return endsWith(err)
}

// endsWith takes every end of a connection but that of the attempt's patience for a refusal.
func endsWith(err error) error {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return err
	}
	return Refusal(closed)
}

// idle finds whether the first of many connections is closed for the last, which isn't.
func idle(at string) error {
	var all []net.Conn
	for range 2000 {
		c, err := net.DialTimeout("tcp", at, patience/2)
		if err != nil {
			return err
		}
		defer c.Close()
		all = append(all, c)
	}
	if err := all[0].SetDeadline(time.Now().Add(patience / 2)); err != nil {
		return err
	}
	_, err := one4(all[0])
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return Refusal(closed)
	}
	return err
}
