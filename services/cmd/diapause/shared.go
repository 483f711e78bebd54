package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/coder/websocket"
	"golang.org/x/term"

	emulator "github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/gateway"
	"github.com/diapause/diapause/services/gateway/terminal"
)

// The bounds of what a gateway sends.
const (
	maxLink   = 4 << 10
	maxShown  = 32 << 20 // a message: a screen has that at most
	headShown = 9        // bytes before what a terminal shows
)

// watchShared watches a terminal by a link, which has a token and so is no argument: others could list it.
func watchShared(ctx context.Context, authority string) error {
	link, err := readLink()
	if err != nil {
		return err
	}
	base, token, err := sharedBy(link)
	if err != nil {
		return err
	}
	client, err := trusting(authority)
	if err != nil {
		return err
	}
	ws, answer, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(base, "http")+gateway.SharePath, &websocket.DialOptions{
		HTTPClient: client, Subprotocols: []string{terminal.Protocol}, HTTPHeader: http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return notWatched(answer, err)
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(maxShown)
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	restore, err := untilLeft(leave)
	if err != nil {
		return err
	}
	err = showShared(ctx, ws, os.Stdout)
	restore()
	if errors.Is(context.Cause(ctx), errDetached) {
		fmt.Fprintln(complained, "left the shared terminal, which runs on")
		return nil
	}
	return err
}

// readLink asks for the link, or reads it from an input that is no terminal.
func readLink() (string, error) {
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		fmt.Fprint(complained, "link: ")
		b, err := term.ReadPassword(fd)
		fmt.Fprintln(complained)
		if err != nil {
			return "", fmt.Errorf("read the link: %w", err)
		}
		return string(b), nil
	}
	line, err := bufio.NewReader(io.LimitReader(os.Stdin, maxLink)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the link: %w", err)
	}
	return line, nil
}

// trusting gives a client that trusts the certificates of a file as well.
func trusting(authority string) (*http.Client, error) {
	follow := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // nowhere else with the token
	if authority == "" {
		return &http.Client{CheckRedirect: follow}, nil
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		return nil, usage(fmt.Errorf("read --cacert: %w", err))
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, usagef("--cacert %s: it has no certificate", authority)
	}
	return &http.Client{CheckRedirect: follow, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}}, nil
}

// notWatched says why a gateway gives no terminal.
func notWatched(answer *http.Response, err error) error {
	var p gateway.Problem
	if answer == nil || json.NewDecoder(io.LimitReader(answer.Body, maxLink)).Decode(&p) != nil || p.Detail == "" {
		return fmt.Errorf("watch the shared terminal: %w", err)
	}
	return problemOf(p)
}

// problemOf is a problem as an error of this program. A link that isn't good has no hint: the one who has it makes no tokens.
func problemOf(p gateway.Problem) error {
	e := &schemas.APIError{Code: schemas.CodeFailed, Text: schemas.Shown(p.Detail), Reason: p.Reason, Hint: schemas.Shown(p.Hint)}
	if p.Status == http.StatusUnauthorized {
		e.Text, e.Hint = "the share has ended, or the link isn't one", "ask who shared the terminal for another link"
	}
	return e
}

// untilLeft hears the keys that leave a terminal, which shows no others meanwhile.
func untilLeft(leave context.CancelCauseFunc) (restore func(), err error) {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("use the terminal: %w", err)
	}
	go func() {
		keys := make([]byte, 1<<10)
		for {
			n, err := os.Stdin.Read(keys)
			if err != nil || bytes.ContainsAny(keys[:n], string([]byte{detachKey, interruptKey})) {
				leave(errDetached)
				return
			}
		}
	}()
	return func() {
		if term.IsTerminal(int(os.Stdout.Fd())) {
			_, _ = os.Stdout.Write(emulator.New(1, 1).Paint()) // its modes, colours and other screen are as they were
		}
		_ = term.Restore(fd, before) // the terminal is gone, then
	}, nil
}

// interruptKey is Ctrl-C.
const interruptKey = 0x03

// sharedScreen is a terminal as a gateway has it shown. That may be anyone's who gave a link: what it sends is filtered as a gateway
// filters what sessions print, so that this terminal answers nothing.
type sharedScreen struct {
	to      io.Writer
	filter  *emulator.Filter
	problem *gateway.Problem // of the last message, if it was an error
}

// showShared shows what the gateway sends until that ends.
func showShared(ctx context.Context, ws *websocket.Conn, to io.Writer) error {
	first, err := json.Marshal(map[string]string{"type": "attach", "client": rand.Text()})
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	if err := ws.Write(ctx, websocket.MessageText, first); err != nil {
		return fmt.Errorf("watch the shared terminal: %w", err)
	}
	s := &sharedScreen{to: to, filter: emulator.NewFilter(0, 0)}
	for {
		kind, b, err := ws.Read(ctx)
		switch {
		case websocket.CloseStatus(err) == websocket.StatusNormalClosure:
			return nil
		case err != nil && ctx.Err() != nil:
			return errInterrupted
		case err != nil && s.problem != nil:
			return problemOf(*s.problem)
		case err != nil:
			return fmt.Errorf("watch the shared terminal: %w", err)
		case kind == websocket.MessageBinary:
			err = s.shows(b)
		default:
			err = s.heard(b)
		}
		if err != nil {
			return err
		}
	}
}

// shows shows output, or a screen, with which filtering begins again.
func (s *sharedScreen) shows(b []byte) error {
	s.problem = nil
	if len(b) < headShown {
		return nil // of a later version
	}
	if b[0] == terminal.KindScreen {
		s.filter = emulator.NewFilter(0, 0)
	}
	if _, err := s.to.Write(s.filter.Write(b[headShown:])); err != nil {
		return fmt.Errorf("show the terminal: %w", err)
	}
	return nil
}

// heard says what the gateway says beside the terminal, and gives what ends the watch.
func (s *sharedScreen) heard(b []byte) error {
	var m struct {
		terminal.Message
		Problem *gateway.Problem `json:"problem"`
	}
	if json.Unmarshal(b, &m) != nil {
		return nil // of a later version
	}
	s.problem = m.Problem
	switch {
	case m.Type == terminal.TypeState && m.State != schemas.Running:
		notice("the session is " + schemas.Shown(string(m.State)))
	case m.Type == terminal.TypeEnded:
		notice("the session has ended")
	case m.Problem != nil && m.Problem.Status == http.StatusUnauthorized:
		return problemOf(*m.Problem)
	}
	return nil
}

// notice says something below what the terminal shows, which may be raw.
func notice(text string) { fmt.Fprintf(os.Stderr, "\r\n%s\r\n", clean(text)) }
