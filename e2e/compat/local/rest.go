package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/events/rfb"
)

var apiLine = regexp.MustCompile(`HTTP API: (\S+)/api/v1, `)

// WithREST are the arguments of StartWith for a daemon that answers HTTP.
var WithREST = []string{"--http", "127.0.0.1:0"}

// rest gives the address of the daemon's HTTP API, and a token for it.
func (d *Daemon) rest(ctx context.Context) (base, token string, err error) {
	for base == "" {
		if m := apiLine.FindStringSubmatch(d.Output()); m != nil {
			base = m[1]
		} else if err := ctx.Err(); err != nil {
			return "", "", fmt.Errorf("wait for the HTTP API: %w", err)
		} else {
			time.Sleep(10 * time.Millisecond)
		}
	}
	token, err = d.command(ctx, nil, "token", "create", "--role", "owner")
	return base, strings.TrimSpace(token), err
}

// Restored is what became of a desktop that was restored by HTTP.
type Restored struct {
	Answered time.Duration // from the call to its answer
	Shown    time.Duration // from the call until a VNC client had all of the screen
}

// frameWait bounds the wait for a frame.
const frameWait = time.Minute

// Restore resumes a desktop by HTTP, and has a VNC client get all of its screen.
func (s *Session) Restore(ctx context.Context) (Restored, error) {
	var r Restored
	base, token, err := s.d.rest(ctx)
	if err != nil {
		return r, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/sessions/"+s.Name+"/restore", http.NoBody)
	if err != nil {
		return r, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	begin := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, fmt.Errorf("restore session %s: %w", s.Name, err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	r.Answered = time.Since(begin)
	var answer struct {
		VNCPort uint16 `json:"vnc_port"`
	}
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		return r, fmt.Errorf("restore session %s: %w: %s", s.Name, err, body)
	}
	if resp.StatusCode != http.StatusOK || answer.VNCPort == 0 {
		return r, fmt.Errorf("restore session %s: status %d: %s", s.Name, resp.StatusCode, body)
	}
	c, err := dialVNC(ctx, answer.VNCPort)
	if err != nil {
		return r, err
	}
	defer c.Close()
	_, err = rfb.Picture(c, 1<<14)
	r.Shown = time.Since(begin)
	return r, err
}

func dialVNC(ctx context.Context, port uint16) (net.Conn, error) {
	d := net.Dialer{Timeout: frameWait}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(frameWait))
}

// Picture gives the pixels of a desktop that runs, as a VNC client sees them.
func (s *Session) Picture(ctx context.Context) ([]byte, error) {
	v, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	c, err := dialVNC(ctx, v.Desktop.VNCPort)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	shown, err := rfb.Picture(c, 1<<14)
	if err != nil {
		return nil, err
	}
	return shown.Pix, nil
}

// Type has a VNC client type on a desktop: characters of ASCII, '\n', and '\x13' for Ctrl-S.
func (s *Session) Type(ctx context.Context, text string) error {
	v, err := s.View(ctx)
	if err != nil {
		return err
	}
	c, err := dialVNC(ctx, v.Desktop.VNCPort)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := rfb.Picture(c, 1); err != nil {
		return err
	}
	const enter, control, save = 0xff0d, 0xffe3, '\x13'
	var keys []byte
	press := func(sym uint16, down byte) { keys = append(keys, 4, down, 0, 0, 0, 0, byte(sym>>8), byte(sym)) }
	for _, char := range text {
		switch char {
		case '\n':
			press(enter, 1)
			press(enter, 0)
		case save:
			press(control, 1)
			press('s', 1)
			press('s', 0)
			press(control, 0)
		default:
			press(uint16(char), 1)
			press(uint16(char), 0)
		}
	}
	if _, err := c.Write(keys); err != nil {
		return err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c) // until the server has read all
	return err
}
