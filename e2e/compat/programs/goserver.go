package programs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

// GoServer is an HTTP server and its client in one session: the client asks
// without pause over one connection that it never opens again.
func GoServer() Program {
	g := &goServer{}
	return Program{
		Name: "Go HTTP server and client", State: "every request counted once, none failed, one keep-alive connection all the time, goroutines and timers",
		Needs: []string{"go"}, Version: []string{"go", "env", "GOVERSION"},
		// It waits for the program that the run builds and copies in.
		Command: []string{"/bin/sh", "-c", `until [ -e /tmp/go ]; do sleep 0.05; done
/tmp/counter serve /tmp/port & exec /tmp/counter ask /tmp/port /tmp/told`},
		Prepare: g.prepare, Check: g.check,
	}
}

type goServer struct{ last counted }

// counted is what the client writes about what it was told.
type counted struct {
	Asked       int64  `json:"asked"`       // requests that were answered
	Server      int64  `json:"server"`      // the server's count in the last answer
	Connections int64  `json:"connections"` // that were opened
	Failed      int64  `json:"failed"`
	Timers      int64  `json:"timers"` // ticks of the server's timer
	Error       string `json:"error"`
}

func (g *goServer) prepare(ctx context.Context, s *local.Session) error {
	dir, err := os.MkdirTemp("", "counter-")
	if err != nil {
		return fmt.Errorf("build the server: %w", err)
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "counter")
	if err := local.Build(ctx, "e2e", "./compat/counter", out); err != nil {
		return err
	}
	binary, err := os.ReadFile(out)
	if err != nil {
		return fmt.Errorf("read the server: %w", err)
	}
	if _, err := s.Exec(ctx, string(binary), "/bin/sh", "-c", "cat >/tmp/counter && chmod 755 /tmp/counter && touch /tmp/go"); err != nil {
		return err
	}
	return g.goesOn(ctx, s)
}

func (g *goServer) check(ctx context.Context, s *local.Session, _ Round) error {
	return g.goesOn(ctx, s)
}

// goesOn waits until there are more answers, all good ones.
func (g *goServer) goesOn(ctx context.Context, s *local.Session) error {
	const more = 200
	for deadline := time.Now().Add(patience); ; {
		out, err := s.Until(ctx, patience, "cat /tmp/told")
		if err != nil {
			return err
		}
		var now counted
		if err := json.Unmarshal([]byte(out), &now); err != nil {
			return fmt.Errorf("read what the client tells: %w", err)
		}
		switch {
		case now.Failed > 0:
			return fmt.Errorf("%d requests failed: %s", now.Failed, now.Error)
		case now.Connections != 1:
			return fmt.Errorf("the client has opened %d connections", now.Connections)
		case now.Server != now.Asked:
			return fmt.Errorf("the client had %d answers, the server counted %d", now.Asked, now.Server)
		case now.Asked > g.last.Asked+more && now.Timers > g.last.Timers:
			g.last = now
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("requests stopped at %d (%d before), timer at %d (%d before)", now.Asked, g.last.Asked, now.Timers, g.last.Timers)
		}
	}
}
