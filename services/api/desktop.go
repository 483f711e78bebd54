package api

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/desktop"
)

// desktops says how sessions are run that are desktops, and which ports of hosts lead to them.
type desktops struct {
	board *board
	// claim has a port kept for a session that the board doesn't show yet; false if it is kept for another.
	claim func(ctx context.Context, port uint16) (bool, error)
}

func newDesktops(o Options, b *board) *desktops {
	return &desktops{board: b, claim: func(ctx context.Context, port uint16) (bool, error) {
		return stream.Publisher{JS: o.JS}.ClaimPort(ctx, o.Names, port)
	}}
}

// The ports that desktops are published at if none is asked for: below those that kernels give to clients.
const (
	firstVNC = 25900
	endVNC   = 31900
)

// furnish completes a request to run a desktop; nil if it is for no desktop.
func (d *desktops) furnish(ctx context.Context, by Caller, r *schemas.RunRequest) (*schemas.Desktop, error) {
	if r == nil || r.Desktop == nil {
		return nil, nil
	}
	var spec schemas.Spec
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		return nil, schemas.UsageError("desktop: the spec isn't JSON: %v", err)
	}
	if len(spec.Options) > 0 || r.Driver != "" && r.Driver != treeDriver || r.Existing != "" {
		return nil, schemas.UsageError("desktop: only a process tree can be one")
	}
	if spec.TTY || r.TTY {
		return nil, schemas.UsageError("desktop: it has no terminal").WithHint("the app xterm has one on the display")
	}
	out, program, err := desktop.Furnish(&spec, *r.Desktop)
	if err != nil {
		return nil, schemas.UsageError("desktop: %v", err)
	}
	if err := d.connect(ctx, by, &spec, out, *r.Desktop); err != nil {
		return nil, err
	}
	r.Program = program
	if r.Class == "" {
		r.Class = "desktop"
	}
	if r.Spec, err = json.Marshal(spec); err != nil {
		return nil, schemas.FailedError("", "encode the spec: %v", err)
	}
	return &out, nil
}

// connect gives a desktop its network, and the port of its host.
func (d *desktops) connect(ctx context.Context, by Caller, spec *schemas.Spec, out schemas.Desktop, r schemas.DesktopRequest) error {
	if spec.Network == "" {
		spec.Network = schemas.NetworkPrivate
	}
	switch {
	case spec.Network == schemas.NetworkHost:
		return schemas.UsageError("desktop: its VNC server asks for no password").WithHint("leave out the host's network")
	case r.VNCPort != 0 && (r.Unpublished || spec.Network != schemas.NetworkPrivate):
		return schemas.UsageError("desktop: a VNC port is for a private network")
	case r.Unpublished || spec.Network != schemas.NetworkPrivate || out.Published(spec.Publish) != 0:
		return nil
	case r.VNCPort == 0 && by.Tenant != "":
		return nil // ports of hosts are for operators
	}
	port := r.VNCPort
	if port == 0 {
		var err error
		if port, err = d.free(ctx); err != nil {
			return err
		}
	}
	spec.Publish = append(spec.Publish, out.PublishedAt(port))
	return nil
}

// ofFork gives a fork of a desktop another port than its origin has, unless the request names its ports.
func (d *desktops) ofFork(ctx context.Context, v schemas.SessionRecord, publish []string, req request) ([]string, error) {
	if v.Desktop == nil || len(req.Publish) > 0 || v.Desktop.Published(publish) == 0 {
		return publish, nil
	}
	var out []string
	for _, word := range publish {
		if v.Desktop.Published([]string{word}) != 0 {
			port, err := d.free(ctx)
			if err != nil {
				return nil, err
			}
			word = v.Desktop.PublishedAt(port)
		}
		out = append(out, word)
	}
	return out, nil
}

// free gives a port that no session publishes, and that was claimed by no other API server either.
func (d *desktops) free(ctx context.Context) (uint16, error) {
	taken := map[string]bool{}
	for r := range d.board.those("", func(s sight) bool { return bytes.Contains(s.packed, []byte(`"publish"`)) }) {
		for _, word := range r.Publish {
			if parts := strings.Split(word, ":"); len(parts) > 1 {
				taken[parts[len(parts)-2]] = true
			}
		}
	}
	for {
		port, err := freeOf(taken, rand.IntN(endVNC-firstVNC))
		if err != nil {
			return 0, err
		}
		if ok, err := d.claim(ctx, port); ok || err != nil {
			return port, err
		}
		taken[strconv.Itoa(int(port))] = true
	}
}

// freeOf gives the first port that isn't taken, from a place on.
func freeOf(taken map[string]bool, from int) (uint16, error) {
	for i := range endVNC - firstVNC {
		port := firstVNC + (from+i)%(endVNC-firstVNC)
		if !taken[strconv.Itoa(port)] {
			return uint16(port), nil
		}
	}
	return 0, schemas.StateError(schemas.ReasonBusy, "every port for desktops is taken").WithHint("name another port as vnc_port, or publish none")
}
