package canary

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// talkWait bounds the wait for one answer of a program that runs.
const talkWait = 20 * time.Second

// terminal is what a person at the canary's terminal sees and types.
type terminal struct {
	conn net.Conn
	text string // shown and not yet read as a line
}

// openTerminal attaches to a session, from the first thing that it has shown.
func openTerminal(ctx context.Context, d Driver, uid schemas.UID) (*terminal, error) {
	conn, err := d.Dial(ctx, uid)
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(attach.Request{Op: attach.OpAttach, Stdin: true, Tail: -1})
	if err == nil {
		err = attach.WriteFrame(conn, attach.FrameRequest, request)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &terminal{conn: conn}, nil
}

func (t *terminal) enter(line string) error {
	return attach.WriteFrame(t.conn, attach.FrameStdin, []byte(line+"\n"))
}

// await reads lines until one begins with words, and gives the rest of it.
func (t *terminal) await(words string) (rest string, err error) {
	for {
		line, left, ok := strings.Cut(t.text, "\n")
		if ok {
			t.text = left
			if rest, found := strings.CutPrefix(strings.TrimSuffix(line, "\r"), words); found {
				return rest, nil
			}
			continue
		}
		kind, payload, err := attach.ReadFrame(t.conn)
		if err != nil {
			return "", err
		}
		switch kind {
		case attach.FrameStdout, attach.FrameStderr:
			t.text += string(payload)
		case attach.FrameExit:
			return "", fmt.Errorf("its program ended, with %s on its terminal at last, and %s", strconv.Quote(last(t.text)), payload)
		case attach.FrameError:
			return "", errors.New(string(payload))
		}
	}
}

// last gives the end of what a terminal showed.
func last(text string) string {
	const enough = 300
	return text[max(0, len(text)-enough):]
}

// onTerminal gives what the program says after words, when line was entered
// if there is one. An answer doesn't come twice: words must be new.
func onTerminal(ctx context.Context, d Driver, uid schemas.UID, line, words string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, talkWait)
	defer cancel()
	t, err := openTerminal(ctx, d, uid)
	if err != nil {
		return Answer{}, fmt.Errorf("attach to its terminal: %w", err)
	}
	defer t.conn.Close()
	stop := context.AfterFunc(ctx, func() { t.conn.Close() })
	defer stop()
	if line != "" {
		if err := t.enter(line); err != nil {
			return Answer{}, fmt.Errorf("type at its terminal: %w", err)
		}
	}
	text, err := t.await(words)
	if ctx.Err() != nil {
		return Answer{}, fmt.Errorf("wait for its terminal: %w; it shows %q", ctx.Err(), last(t.text))
	}
	if err != nil {
		return Answer{}, fmt.Errorf("read its terminal: %w", err)
	}
	return parse(text)
}

// byTCP asks the program over its listener.
func byTCP(ctx context.Context, address string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, talkWait)
	defer cancel()
	var dialer net.Dialer
	dialer.SetMultipathTCP(false)
	c, err := dialer.DialContext(ctx, "tcp4", address)
	if err != nil {
		return Answer{}, fmt.Errorf("connect to its listener: %w", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return Answer{}, fmt.Errorf("read from its listener: %w", err)
	}
	return parse(line)
}

func parse(text string) (Answer, error) {
	var a Answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, fmt.Errorf("understand %.200q: %w", text, err)
	}
	return a, nil
}
