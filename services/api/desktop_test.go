package api

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// Who may have no ports of hosts gets a desktop without one, and no desktop shares its host's network.
func TestFurnishDesktop(t *testing.T) {
	operator, owner := Caller{}, Caller{Tenant: "acme", Role: RoleOwner}
	for what, c := range map[string]struct {
		by      Caller
		desktop schemas.DesktopRequest
		spec    schemas.Spec
		refused bool
		port    uint16 // 1 is any
	}{
		"of an operator":        {by: operator, port: 1},
		"of an owner":           {by: owner},
		"at a port":             {desktop: schemas.DesktopRequest{VNCPort: 5901}, port: 5901},
		"published by run":      {spec: schemas.Spec{Publish: []string{"5902:5900"}}, port: 5902},
		"at none":               {desktop: schemas.DesktopRequest{Unpublished: true}},
		"without a network":     {spec: schemas.Spec{Network: schemas.NetworkNone}},
		"the host's network":    {spec: schemas.Spec{Network: schemas.NetworkHost}, refused: true},
		"a port and none":       {desktop: schemas.DesktopRequest{VNCPort: 5901, Unpublished: true}, refused: true},
		"with a terminal":       {spec: schemas.Spec{TTY: true}, refused: true},
		"of a port, no network": {desktop: schemas.DesktopRequest{VNCPort: 5901}, spec: schemas.Spec{Network: schemas.NetworkNone}, refused: true},
	} {
		c.desktop.App = "xterm"
		spec, _ := json.Marshal(c.spec)
		r := &schemas.RunRequest{Spec: spec, Desktop: &c.desktop}
		d, err := claiming(nil).furnish(t.Context(), c.by, r)
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil {
			continue
		}
		var made schemas.Spec
		if err := json.Unmarshal(r.Spec, &made); err != nil {
			t.Fatal(err)
		}
		port := d.Published(made.Publish)
		if c.port == 1 && (port < firstVNC || port >= endVNC) || c.port != 1 && port != c.port {
			t.Errorf("%s: it is at port %d, want %d", what, port, c.port)
		}
		if r.Class != "desktop" || r.Program != "xterm" {
			t.Errorf("%s: it is of class %q and runs %q", what, r.Class, r.Program)
		}
	}
}

func TestForkOfDesktop(t *testing.T) {
	d := claiming(nil)
	v := schemas.SessionRecord{Desktop: &schemas.Desktop{Port: 5900}, Publish: []string{"8080:80", "127.0.0.1:25900:5900"}}
	got, err := d.ofFork(t.Context(), v, v.Publish, request{})
	if err != nil || len(got) != 2 || got[0] != "8080:80" || v.Desktop.Published(got) < firstVNC {
		t.Errorf("a fork has the ports %q, %v", got, err)
	}
	named := request{Request: schemas.Request{Publish: []string{"5901:5900"}}}
	if got, err := d.ofFork(t.Context(), v, named.Publish, named); err != nil || !slices.Equal(got, named.Publish) {
		t.Errorf("a fork has the ports %q in place of those that were named, %v", got, err)
	}
}

// claiming is an API server of which the ports that others have claimed are kept.
func claiming(kept map[uint16]bool) *desktops {
	var mu sync.Mutex
	if kept == nil {
		kept = map[uint16]bool{}
	}
	return &desktops{board: newBoard(), claim: func(_ context.Context, port uint16) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		free := !kept[port]
		kept[port] = true
		return free, nil
	}}
}

// Desktops that are made at once get a port each, before the board shows any of them.
func TestPortsAtOnce(t *testing.T) {
	const left = 8
	kept := map[uint16]bool{}
	for port := uint16(firstVNC + left); port < endVNC; port++ {
		kept[port] = true
	}
	d := claiming(kept)
	got := make(chan uint16)
	for range left {
		go func() {
			port, err := d.free(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- port
		}()
	}
	seen := map[uint16]bool{}
	for range left {
		seen[<-got] = true
	}
	if len(seen) != left {
		t.Errorf("%d desktops have the ports %v", left, seen)
	}
	if port, err := d.free(t.Context()); err == nil {
		t.Errorf("all are claimed, and port %d again", port)
	}
}

func TestFreePort(t *testing.T) {
	taken := map[string]bool{"31899": true, "25900": true}
	if got, err := freeOf(taken, endVNC-firstVNC-1); err != nil || got != 25901 {
		t.Errorf("got %d, %v, want 25901", got, err)
	}
	for p := firstVNC; p < endVNC; p++ {
		taken[schemas.Desktop{Port: 5900}.PublishedAt(uint16(p))[len("127.0.0.1:"):][:5]] = true
	}
	if got, err := freeOf(taken, 0); err == nil {
		t.Errorf("got %d, and all are taken", got)
	}
}
