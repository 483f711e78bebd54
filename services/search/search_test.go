package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// hostOf answers a search with so many lines, the last one first.
func hostOf(t *testing.T, lines int) net.Conn {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		if _, err := attach.ReadRequest(theirs); err != nil {
			t.Error(err)
		}
		if _, err := attach.ReadSearched(theirs); err != nil {
			t.Error(err)
		}
		for n := lines; n > 0; n-- {
			line := fmt.Sprintf(`{"session":"a","time":%q,"in":"output","at":%d,"line":%q}`+"\n", time.Unix(int64(n), 0).Format(time.RFC3339), n, strings.Repeat("x", 100))
			if attach.WriteFrame(theirs, attach.FrameStdout, []byte(line)) != nil {
				return // the client has had enough
			}
		}
		_ = attach.WriteJSON(theirs, attach.FrameExit, schemas.ExitStatus{})
	}()
	return ours
}

// TestBounds: a host that sends more than it was asked for is cut, and no more is kept than is asked for.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ limit, keep, bytes, lines, want int }{
		{10, 10, 0, 5, 5}, {10, 10, 0, 10, 10}, {10, 3, 0, 10, 3}, {10, 10, 410, 10, 4}, {10, 10, 1, 10, 1}, {10, 10, 0, 11, -1},
	} {
		a := Asking{
			Search: attach.Search{Words: []string{"x"}, Limit: c.limit}, Keep: c.keep, Bytes: c.bytes, Notes: io.Discard,
			Dial: func(context.Context, schemas.HostID, []byte) (net.Conn, error) { return hostOf(t, c.lines), nil },
		}
		got, err := a.Ask(t.Context(), map[schemas.HostID][]attach.Searched{"h": {{Name: "a"}}})
		if c.want < 0 {
			if !errors.Is(err, errMore) || len(got.Failed) != 1 {
				t.Errorf("%+v: %+v, %v", c, got, err)
			}
			continue
		}
		if err != nil || len(got.Found) != c.want || got.More != (c.want < c.lines) || got.Found[0].At != int64(c.lines) {
			t.Errorf("%+v: %d lines, more %v, %v", c, len(got.Found), got.More, err)
		}
	}
}

// TestHostsAway: another host searches for one that is away; if there is none, it is said.
func TestHostsAway(t *testing.T) {
	a := Asking{Search: attach.Search{Words: []string{"x"}, Limit: 10}, Keep: 10, Notes: io.Discard}
	a.Dial = func(_ context.Context, host schemas.HostID, _ []byte) (net.Conn, error) {
		if host == "away" {
			return nil, ErrAway
		}
		return hostOf(t, 1), nil
	}
	hosts := ByHost([]schemas.View{{Name: "a", TTY: true, Host: "away"}, {Name: "b", TTY: true, Host: "here"}, {Name: "c", Host: "here"}, {Name: "d", TTY: true}})
	if got, err := a.Ask(t.Context(), hosts); err != nil || got.Searched != 2 || len(got.Failed) != 0 {
		t.Errorf("with one left: %+v, %v", got, err)
	}
	delete(hosts, "here")
	if got, err := a.Ask(t.Context(), hosts); !errors.Is(err, ErrAway) || got.Searched != 0 {
		t.Errorf("with none left: %+v, %v", got, err)
	}
}
