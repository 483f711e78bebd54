package docker

import (
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/diapause/diapause/workers/driver"
)

// What the engine says of a container's health, and of one whose check hasn't said anything.
func TestHealthOf(t *testing.T) {
	check := &container.HealthConfig{Test: []string{"CMD-SHELL", "true"}}
	state := func(status container.HealthStatus, said string) *container.Health {
		return &container.Health{Status: status, Log: []*container.HealthcheckResult{{ExitCode: 3, Output: said}}}
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
		"paused":                 {check, container.State{Running: true, Paused: true, Health: state(container.Starting, "")}, driver.Unchecked, ""},
		"restarted all the time": {nil, container.State{Running: true, Restarting: true, ExitCode: 5}, driver.Unknown, "status 5"},
	} {
		got := healthOf(&container.InspectResponse{State: &c.state, Config: &container.Config{Healthcheck: c.check}})
		if got.State != c.want || !strings.Contains(got.Text, c.says) {
			t.Errorf("%s: %+v, want %s: %s", name, got, c.want, c.says)
		}
	}
}
