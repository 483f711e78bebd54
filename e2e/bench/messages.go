package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Count is what a NATS server counts.
type Count struct {
	Messages float64 // sent to it or got from it
	Stored   float64 // of them, what a stream has taken
}

func (c Count) plus(other Count, times float64) Count {
	return Count{c.Messages + times*other.Messages, c.Stored + times*other.Stored}
}

// Messages are what parts send to NATS and get from it, a minute.
type Messages struct {
	Up       Count // an up that is idle, its host among it
	Host     Count // one more host that is idle
	Sessions int   // with so many sessions
	Running  Count // the host, while they sleep in the kernel
	Asleep   Count // and while they are suspended
	Round    Count // in all for one suspend and its resume, however long it takes
}

// counted is a NATS server that counts.
type counted struct {
	*server.Server
	over time.Duration
}

func startCounted(dir string, over time.Duration) (counted, error) {
	s, err := server.NewServer(&server.Options{
		JetStream: true, StoreDir: dir, SyncAlways: true, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return counted{}, fmt.Errorf("make a NATS server: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return counted{}, errors.New("the NATS server isn't ready")
	}
	return counted{s, over}, nil
}

func (c counted) total() (n Count, err error) {
	v, err := c.Varz(nil)
	if err != nil {
		return n, fmt.Errorf("ask the NATS server: %w", err)
	}
	js, err := c.Jsz(&server.JSzOptions{Streams: true, Accounts: true})
	if err != nil {
		return n, fmt.Errorf("ask the NATS server for its streams: %w", err)
	}
	n.Messages = float64(v.InMsgs + v.OutMsgs)
	for _, a := range js.AccountDetails {
		for _, s := range a.Streams {
			n.Stored += float64(s.State.LastSeq)
		}
	}
	return n, nil
}

// since gives what was counted after before.
func (c counted) since(before Count) (Count, error) {
	after, err := c.total()
	return after.plus(before, -1), err
}

// minute gives the messages of a minute, of those of some time.
func (c counted) minute(ctx context.Context) (Count, error) {
	before, err := c.total()
	if err != nil {
		return before, err
	}
	began := time.Now()
	if err := pause(ctx, c.over); err != nil {
		return before, err
	}
	n, err := c.since(before)
	return Count{}.plus(n, 1/time.Since(began).Minutes()), err
}

// MeasureMessages counts the messages of a fleet of an up and one more host.
func MeasureMessages(ctx context.Context, dir, binary string, sessions int, settle, over time.Duration) (m Messages, err error) {
	m.Sessions = sessions
	c, err := startCounted(filepath.Join(dir, "counted"), over)
	if err != nil {
		return m, err
	}
	defer func() { c.Shutdown(); c.WaitForShutdown() }()
	images := filepath.Join(dir, "images")
	if err := os.Mkdir(images, 0o700); err != nil {
		return m, err
	}
	d, err := local.StartWith(ctx, binary, filepath.Join(dir, "up"), nil, "--nats", c.ClientURL(), "--store", "dir://"+images)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, d.Stop(context.WithoutCancel(ctx))) }()
	idle := func() (Count, error) {
		if err := pause(ctx, settle); err != nil {
			return Count{}, err
		}
		return c.minute(ctx)
	}
	if m.Up, err = idle(); err != nil {
		return m, err
	}
	w, err := d.AddWorkerOn(ctx, filepath.Join(dir, "host"), c.ClientURL(), "--store", "dir://"+images)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	both, err := idle()
	if err != nil {
		return m, err
	}
	m.Host = both.plus(m.Up, -1)
	return m, m.withSessions(ctx, d, w, idle, c)
}

func (m *Messages) withSessions(ctx context.Context, d *local.Daemon, w *local.Worker, idle func() (Count, error), c counted) (err error) {
	var all []*local.Session
	defer func() { err = errors.Join(err, removeAll(ctx, all)) }()
	for i := range m.Sessions {
		s, err := d.Run(ctx, fmt.Sprint("idle-", i), []string{"--network", "none", "--host", w.Host()}, "/bin/sleep", "infinity")
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	running, err := idle()
	if err != nil {
		return err
	}
	m.Running = running.plus(m.Up, -1)
	before, err := c.total()
	if err != nil {
		return err
	}
	began := time.Now()
	for _, s := range all {
		if _, err := s.Suspend(ctx); err != nil {
			return err
		}
		if _, err := s.Ensure(ctx); err != nil {
			return err
		}
	}
	took, err := c.since(before)
	if err != nil {
		return err
	}
	m.Round = Count{}.plus(took.plus(running, -time.Since(began).Minutes()), 1/float64(len(all)))
	for _, s := range all {
		if _, err := s.Suspend(ctx); err != nil {
			return err
		}
	}
	asleep, err := idle()
	m.Asleep = asleep.plus(m.Up, -1)
	return err
}
