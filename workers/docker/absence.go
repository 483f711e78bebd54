package docker

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
)

const (
	pingTime = 10 * time.Second // bounds the wait for an engine that takes connections and doesn't answer
	stopTime = time.Minute      // bounds how long an engine may take to stop
	nearby   = 5 * time.Second  // bounds how long a container ends before it is noticed that its engine stops
	absences = 8                // how many are remembered
)

// absence is when the engine last didn't answer, as far as the driver has seen. Several ask it
// at once, so that what one learnt is noted after what another learnt later.
type absence struct {
	mu    sync.Mutex
	spans []span // oldest first
}

type span struct{ from, until time.Time } // until is zero as long as it lasts

// begin records that the engine, which was asked or watched at a time, was stopping, or stopped,
// since another.
func (a *absence) begin(asked, from time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := len(a.spans) - 1
	if last >= 0 && (a.spans[last].until.IsZero() || asked.Before(a.spans[last].until)) {
		if from.Before(a.spans[last].from) {
			a.spans[last].from = from
		}
		return
	}
	a.spans = append(a.spans, span{from: from})
	a.spans = a.spans[max(0, len(a.spans)-absences):]
}

// end records that the engine answers. asked is when it was asked, and ended when a container
// of it ended before that: an absence that started in between is taken to start at ended.
func (a *absence) end(asked, ended time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.spans) == 0 {
		return
	}
	last := &a.spans[len(a.spans)-1]
	if last.from.After(asked) && ended.Before(last.from) {
		last.from = ended
	}
	if last.until.IsZero() {
		last.until = time.Now()
	}
}

// covers reports whether the engine was stopping, or stopped, at a time.
func (a *absence) covers(at time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.spans, func(s span) bool {
		return at.After(s.from.Add(-nearby)) && (s.until.IsZero() || at.Before(s.until))
	})
}

// endedWithEngine reports whether a container ended because its engine was stopped. A stopping
// engine still reports the ends of its containers, and only after its next start it is known
// which of them it starts again: until it answers, endedWithEngine fails.
func (s *states) endedWithEngine(ctx context.Context, c *container.InspectResponse) (bool, error) {
	ended, err := time.Parse(time.RFC3339Nano, c.State.FinishedAt)
	if err != nil {
		return false, nil
	}
	asked := time.Now()
	recent := ended
	if asked.Sub(ended) > stopTime {
		recent = asked
	}
	if err := s.engine.ping(ctx); err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		s.absence.begin(asked, recent)
		return false, &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("learn why container %s ended: the Docker engine at %s doesn't answer", c.Name[1:], s.engine.address), Hint: hintEngineAway, Err: err}
	}
	s.absence.end(asked, recent)
	if !s.absence.covers(ended) && !s.beforeEngine(c, ended) {
		return false, nil
	}
	got, err := s.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return false, s.engine.failed("learn whether its containers end with it", err)
	}
	return !got.Info.LiveRestoreEnabled, nil
}

// beforeEngine reports whether a container ended with an engine before the one that runs now.
// The driver wasn't watching then, and the engine keeps only the exit status. A container
// that was ended by one of the signals that an engine sends when it stops is taken to have
// ended so: hardly any other does.
func (s *states) beforeEngine(c *container.InspectResponse, ended time.Time) bool {
	since, ok := s.engine.since()
	began, err := time.Parse(time.RFC3339Nano, c.State.StartedAt)
	switch {
	case !ok, err != nil, !began.Before(since):
		return false
	case !ended.Before(since): // it was found dead by this one
		return true
	case c.HostConfig.RestartPolicy.IsUnlessStopped(): // the engine would have started it again, unless a person stopped it
		return false
	}
	return !c.State.OOMKilled && (c.State.ExitCode == 128+int(unix.SIGTERM) || c.State.ExitCode == 128+int(unix.SIGKILL))
}

// since gives the time when the engine was started, from the files that it made then. It is by
// the clock of that moment, as are the times of its containers; the age of the engine's
// process isn't, because clocks are set.
func (e *engine) since() (time.Time, bool) {
	made := strings.TrimPrefix(e.address, "unix://")
	if listener(made) <= 1 { // it was given its socket by systemd
		made = filepath.Join(filepath.Dir(made), "docker.pid")
	}
	st, err := os.Stat(made)
	if err != nil {
		return time.Time{}, false
	}
	return st.ModTime(), true
}

// listener gives the process that listens at a socket, 0 if that is unknown.
func listener(socket string) (pid int) {
	conn, err := net.DialTimeout("unix", socket, pingTime)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}
