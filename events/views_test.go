package events

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
)

// A list that is longer than a message is watched page by page; a server of before pages gives it at once.
func TestLongListsAreWatched(t *testing.T) {
	for name, c := range map[string]struct {
		sessions int
		pages    bool
	}{"pages": {2*pageOfList + 1, true}, "just full pages": {2 * pageOfList, true}, "before pages": {pageOfList, false}} {
		t.Run(name, func(t *testing.T) { watchesLong(t, c.sessions, c.pages) })
	}
}

func watchesLong(t *testing.T, sessions int, pages bool) {
	srv := startServer(t, -1)
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Subscribe(schemas.SubjectAPI+".list", func(m *nats.Msg) {
		var req schemas.Request
		if err := json.Unmarshal(m.Data, &req); err != nil || req.List == nil {
			t.Errorf("asked %s", m.Data)
			return
		}
		page := []schemas.View{}
		for i := range sessions {
			v := schemas.View{Name: fmt.Sprintf("acme/s%06d", i)}
			if !pages || v.Name > req.List.After && len(page) < req.List.Limit {
				page = append(page, v)
			}
		}
		data, _ := json.Marshal(page)
		if err := m.Respond(data); err != nil {
			t.Errorf("answer: %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	c := New(nc, Options{})
	defer c.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	seen := map[string]int{}
	if err := c.WatchSessions(ctx, "*/*", func(v schemas.View) {
		if seen[v.Name]++; len(seen) == sessions {
			stop()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != sessions {
		t.Errorf("%d of %d sessions are shown", len(seen), sessions)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is shown %d times", name, n)
		}
	}
}
