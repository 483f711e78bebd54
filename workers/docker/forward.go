package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/workers/reach"
)

// forwardWait bounds how long a port of a container may take to be connected to.
const forwardWait = 10 * time.Second

// forward connects a client to a port of the container, from inside the container's network.
func (t *talker) forward(ctx context.Context, n note, r attach.Request, conn net.Conn) error {
	up, err := t.dialPort(ctx, n, r.Port)
	if errors.Is(err, reach.ErrRefused) {
		return attach.WriteRefused(conn, fmt.Sprintf("nothing listens at port %d of session %s", r.Port, n.Name))
	}
	if err != nil {
		return err
	}
	whole := func() bool {
		now, err := t.notes.read(n.UID)
		return err == nil && now.Phase == here && now.Container == n.Container
	}
	_ = attach.ServeForward(conn, up, whole) // both ends have seen how it ended
	return nil
}

func (t *talker) dialPort(ctx context.Context, n note, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardWait)
	defer cancel()
	leave, err := t.enter(ctx, n.UID)
	if err != nil {
		return nil, err
	}
	defer leave()
	got, err := t.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if err != nil {
		return nil, t.engine.failed("inspect the container of session "+n.Name.String(), err)
	}
	s := got.Container.State
	if !s.Running || s.Pid == 0 {
		return nil, fmt.Errorf("connect to session %s: its container is %s", n.Name, s.Status)
	}
	space, err := reach.Namespace(s.Pid)
	if err != nil {
		return nil, elsewhere(n)
	}
	defer space.Close()
	// The engine may count processes that aren't this host's.
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.Pid))
	if err != nil || !strings.Contains(string(groups), got.Container.ID) {
		return nil, elsewhere(n)
	}
	return reach.Dial(ctx, space, port)
}

func elsewhere(n note) error {
	return hinted(refuse("session %s can't be forwarded to: its container isn't on this host", n.Name),
		"publish them with `docker run --publish`, or run the worker on the engine's own host")
}
