package docker

import (
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/diapause/diapause/workers/driver"
)

// What the engine says of a container's health, and of one whose check hasn't said anything.
func TestHealthOf(t *testing.T) {
	t.Parallel()
	check := &container.HealthConfig{Test: []string{"CMD-SHELL", "true"}}
	state := func(status container.HealthStatus, said string) *container.Health {
		return &container.Health{Status: status, FailingStreak: 3, Log: []*container.HealthcheckResult{{ExitCode: 3, Output: said}}}
	}
	for name, c := range map[string]struct {
		check *container.HealthConfig
		state container.State
		want  driver.HealthState
		says  string
	}{
		"no check":               {nil, container.State{Running: true}, driver.Unchecked, ""},
		"the image's is off":     {&container.HealthConfig{Test: []string{"NONE"}}, container.State{Running: true}, driver.Unchecked, ""},
		"just started":           {check, container.State{Running: true}, driver.Unknown, "hasn't passed"},
		"starting":               {check, container.State{Running: true, Health: state(container.Starting, "")}, driver.Unknown, "hasn't passed"},
		"healthy":                {check, container.State{Running: true, Health: state(container.Healthy, "")}, driver.Well, ""},
		"unhealthy":              {check, container.State{Running: true, Health: state(container.Unhealthy, "no\nway")}, driver.Ill, "status 3: no"},
		"was paused":             {check, container.State{Running: true, Health: &container.Health{Status: container.Unhealthy, FailingStreak: 2}}, driver.Unknown, "hasn't passed"},
		"paused":                 {check, container.State{Running: true, Paused: true, Health: state(container.Starting, "")}, driver.Unchecked, ""},
		"restarted all the time": {nil, container.State{Running: true, Restarting: true, ExitCode: 5}, driver.Unknown, "status 5"},
	} {
		got := healthOf(&container.InspectResponse{State: &c.state, Config: &container.Config{Healthcheck: c.check}})
		if got.State != c.want || !strings.Contains(got.Text, c.says) {
			t.Errorf("%s: %+v, want %s: %s", name, got, c.want, c.says)
		}
	}
}

// The engine calls a container unhealthy after a pause, if nothing fails. What fails anyway isn't told.
func TestShownUnhealthy(t *testing.T) {
	t.Parallel()
	check := &container.HealthConfig{Test: []string{"CMD-SHELL", "true"}, Interval: time.Minute, Retries: 2}
	said := func(status container.HealthStatus, failed int) *container.Health {
		return &container.Health{Status: status, FailingStreak: failed}
	}
	for name, c := range map[string]struct {
		check  *container.HealthConfig
		state  container.State
		status string // that is shown
		told   bool
	}{
		"no check":               {nil, container.State{Running: true}, "", false},
		"healthy":                {check, container.State{Running: true, Health: said(container.Healthy, 0)}, "", true},
		"starting":               {check, container.State{Running: true, Health: said(container.Starting, 0)}, "", true},
		"shown unhealthy":        {check, container.State{Running: true, Health: said(container.Unhealthy, 1)}, "", true},
		"unhealthy":              {check, container.State{Running: true, Health: said(container.Unhealthy, 2)}, "unhealthy", false},
		"paused by someone else": {check, container.State{Running: true, Paused: true, Status: container.StatePaused, Health: said(container.Unhealthy, 0)}, "paused", false},
		"ended":                  {check, container.State{Status: container.StateExited, Health: said(container.Unhealthy, 0)}, "exited", false},
	} {
		in := &container.InspectResponse{Name: "/web", State: &c.state, Config: &container.Config{Healthcheck: c.check}}
		if got := statusOf(note{Phase: here}, in); got != c.status {
			t.Errorf("%s: shown as %q, want %q", name, got, c.status)
		}
		if got := shownUnhealthy(in); len(got) > 0 != c.told || c.told && !strings.Contains(got[0].Text, "within 1m0s") {
			t.Errorf("%s: told is %+v", name, got)
		}
	}
}
