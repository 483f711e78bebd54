package docker

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// health implements driver.Prober with the container's own health check, if it has one.
func (o *observer) health(ctx context.Context, uid schemas.UID) (driver.Health, error) {
	n, err := o.notes.read(uid)
	if err != nil {
		return driver.Health{}, err
	}
	i, c, err := o.states.instance(ctx, n)
	switch {
	case err != nil:
		return driver.Health{}, err
	case i.State == driver.Exited:
		return driver.Health{State: driver.Ill, Text: fmt.Sprintf("it ended with status %d", i.Exit.Code)}, nil
	}
	return healthOf(c), nil
}

// healthOf gives the health of a container that runs or is restarted again and again.
func healthOf(c *container.InspectResponse) driver.Health {
	s := c.State
	h := driver.Health{State: driver.Unknown, Text: "its health check hasn't passed yet"}
	if began, err := time.Parse(time.RFC3339Nano, s.StartedAt); err == nil {
		h.Began = began
	}
	switch {
	case s.Restarting:
		h.Text = fmt.Sprintf("its command ends again and again, the last time with status %d", s.ExitCode)
	case s.Paused: // as it was captured
		h.State, h.Text = driver.Unchecked, "it is paused"
	case probing(c) == 0:
		h.State, h.Text = driver.Unchecked, "it was started again and again"
	case s.Health == nil: // it has just started
	case s.Health.Status == container.Healthy:
		h.State, h.Text = driver.Well, ""
	case failing(c):
		h.State, h.Text = driver.Ill, "its health check fails: "+lastWord(s.Health)
	}
	return h
}

// probeRetries is how many health checks have to fail one after the other, by the engine's default.
const probeRetries = 3

// failing reports whether a container's health check fails. A container that was paused is unhealthy as
// well for the engine, until its next health check.
func failing(c *container.InspectResponse) bool {
	h := c.State.Health
	if h == nil || h.Status != container.Unhealthy {
		return false
	}
	check := c.Config.Healthcheck
	return check == nil || h.FailingStreak >= cmp.Or(check.Retries, probeRetries)
}

// probeInterval is the time between two health checks, by the engine's default.
const probeInterval = 30 * time.Second

// shownUnhealthy warns of what the engine says of a container's health after it was paused.
func shownUnhealthy(c *container.InspectResponse) []schemas.Warning {
	if s := c.State; probing(c) == 0 || s.Paused || !s.Running || s.Health == nil || failing(c) {
		return nil
	}
	name := strings.TrimPrefix(c.Name, "/")
	return []schemas.Warning{{
		Code: schemas.WarnHealth, Subject: name,
		Text: fmt.Sprintf("the Docker engine calls container %s unhealthy until its next health check, within %s: it does so whenever it has paused one", name, cmp.Or(c.Config.Healthcheck.Interval, probeInterval)),
	}}
}

// lastWord gives the last output of a health check.
func lastWord(h *container.Health) string {
	if len(h.Log) == 0 {
		return "it said nothing"
	}
	last := h.Log[len(h.Log)-1]
	said, _, _ := strings.Cut(strings.TrimSpace(last.Output), "\n")
	if said == "" {
		return fmt.Sprintf("status %d", last.ExitCode)
	}
	return fmt.Sprintf("status %d: %s", last.ExitCode, said)
}
