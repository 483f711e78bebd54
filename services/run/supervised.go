package run

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/services/scheduler"
)

// Telling the service manager that started this process how it is, by sd_notify(3). Without
// NOTIFY_SOCKET in the environment nothing is told.

// supervised runs a part, and feeds the watchdog of the service manager meanwhile.
func (m gauges) supervised(ctx context.Context, part func(context.Context) error) error {
	defer context.AfterFunc(ctx, func() { tell(daemon.SdNotifyStopping) })()
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return part(ctx) // there is none, or it watches another process
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, fed := errgroup.WithContext(ctx)
	g.Go(func() error {
		m.feed(fed, every/3)
		return nil
	})
	g.Go(func() error {
		defer stop()
		return part(fed)
	})
	return g.Wait()
}

// feed tells the watchdog now and then that all loops answer. It says nothing when one doesn't:
// the watchdog then ends this process. What is away (NATS, the store) is no reason, since a
// new process wouldn't find it either.
func (m gauges) feed(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if _, answers := m.loops.Look(ctx); answers && ctx.Err() == nil {
			tell(daemon.SdNotifyWatchdog)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tell tells the service manager, if there is one.
func tell(state string) { _, _ = daemon.SdNotify(false, state) }

// started has the health of the whole depend on its parts alone, and tells the service manager
// that it is ready.
func (m gauges) started() {
	m.health.Set("start", func(context.Context) string { return "" })
	tell(daemon.SdNotifyReady)
}

// answers has the watchdog depend on a loop or a lock: ask returns when that has answered, or with an
// error when ctx ends before.
func (m gauges) answers(name string, ask func(context.Context) error) {
	m.loops.Set(name, func(ctx context.Context) string {
		if err := ask(ctx); err != nil {
			return err.Error()
		}
		return ""
	})
}

// schedulerAnswers asks the loop of a scheduler, once it has read what was said before it began.
func (m gauges) schedulerAnswers(s *scheduler.Scheduler) {
	m.answers("scheduler", func(ctx context.Context) error {
		select {
		case <-s.Ready():
			_, err := s.Backlog(ctx)
			return err
		default:
			return nil
		}
	})
}
