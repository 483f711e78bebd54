package million

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/diapause/diapause/events/stream"
)

// Options say how much is measured.
type Options struct {
	Sessions int           // before one server
	Cluster  int           // sessions before three servers
	Load     time.Duration // how long activity comes in, each time
	Single   int           // messages a second to one server
	Three    int           // and to three
	Settle   time.Duration // that a scheduler is left alone before its memory is looked at
	Dir      string        // for the streams; they are removed
	Log      func(format string, args ...any)
}

// Found is everything that was measured.
type Found struct {
	Options
	Restart        time.Duration // of the server, until it takes connections
	Memory, Disk   int64         // of the server, in bytes
	Bare, BareLog  []Read        // activity and records, by a consumer that looks at nothing
	Fold           []Folded
	Again          Folded // by a scheduler that may use all cores, as one in use does
	One, Clustered Late
	Woken          Late // before one server, while most of what comes in wakes someone
}

// rounds is how often a consumer and a scheduler read everything, in turn.
const rounds = 3

// Run measures.
func Run(ctx context.Context, o Options) (*Found, error) {
	dir, err := os.MkdirTemp(o.Dir, "million-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	f := &Found{Options: o}
	if err := f.one(ctx, dir); err != nil {
		return nil, fmt.Errorf("before one server: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if o.Cluster == 0 {
		return f, nil
	}
	if err := f.cluster(ctx, dir); err != nil {
		return nil, fmt.Errorf("before three servers: %w", err)
	}
	return f, nil
}

// one measures what one server and one scheduler take.
func (f *Found) one(ctx context.Context, dir string) (err error) {
	f.Log("filling the streams of one server with %d sessions", f.Sessions)
	if err := f.fill(ctx, dir); err != nil {
		return err
	}
	s, err := startServers(ctx, dir, 1, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	f.Restart = s.took
	f.Log("the server reads them in %s", s.took.Round(time.Millisecond))
	if err := f.again(ctx, s); err != nil {
		return err
	}
	var c *child
	for n := range rounds {
		if n > 0 {
			if err := c.end(); err != nil {
				return err
			}
		}
		if c, err = f.read(ctx, s); err != nil {
			return err
		}
	}
	if f.Memory, err = s.memory(); err != nil {
		return errors.Join(err, c.end())
	}
	if f.Disk, err = s.disk(); err != nil {
		return errors.Join(err, c.end())
	}
	if f.One, err = f.late(ctx, s, f.Sessions, runningOf, f.Single); err == nil {
		f.Woken, err = f.late(ctx, s, f.Sessions, 1, f.Single)
	}
	return errors.Join(err, c.end())
}

// read has a bare consumer and then a scheduler read all that there is. The scheduler
// goes on.
func (f *Found) read(ctx context.Context, s *servers) (*child, error) {
	names := stream.NamesWith("")
	log, err := readBare(ctx, s, names.SessionStream())
	if err != nil {
		return nil, err
	}
	said, err := readBare(ctx, s, names.Activity())
	if err != nil {
		return nil, err
	}
	f.Log("a bare consumer: %.0f records/s, %.0f activity/s; %.0f and %.0f for each second of computing", log.Rate(), said.Rate(), log.Work(), said.Work())
	c, err := start(ctx, "scheduler", 1, orders{URL: s.url(), Name: "one", Settle: f.Settle})
	if err != nil {
		return nil, err
	}
	var fold Folded
	if err := c.hear(&fold); err != nil {
		return nil, err
	}
	f.Log("a scheduler: ready in %s; %.0f records/s, %.0f activity/s; %.0f and %.0f for each second of computing; %d sessions in %d MB", fold.Ready.Round(time.Millisecond),
		fold.Records.Rate(), fold.Activity.Rate(), fold.Records.Work(), fold.Activity.Work(), fold.Sessions, fold.Heap>>20)
	f.BareLog, f.Bare, f.Fold = append(f.BareLog, log), append(f.Bare, said), append(f.Fold, fold)
	return c, nil
}

// again starts a scheduler as it is started in use.
func (f *Found) again(ctx context.Context, s *servers) error {
	c, err := start(ctx, "scheduler", 0, orders{URL: s.url(), Name: "again"})
	if err != nil {
		return err
	}
	if err := c.hear(&f.Again); err != nil {
		return err
	}
	f.Log("a scheduler on all cores: ready in %s", f.Again.Ready.Round(time.Millisecond))
	return c.end()
}

func (f *Found) fill(ctx context.Context, dir string) error {
	s, err := startServers(ctx, dir, 1, false)
	if err != nil {
		return err
	}
	nc, err := s.connect()
	if err != nil {
		return errors.Join(err, s.stop())
	}
	err = Fill(ctx, nc, f.Sessions, 1)
	nc.Close()
	return errors.Join(err, s.stop())
}

func readBare(ctx context.Context, s *servers, name string) (r Read, err error) {
	c, err := start(ctx, "bare", 1, orders{URL: s.url(), Stream: name})
	if err != nil {
		return r, err
	}
	if err := c.hear(&r); err != nil {
		return r, err
	}
	return r, c.end()
}

// cluster measures how late decisions are before three servers.
func (f *Found) cluster(ctx context.Context, dir string) (err error) {
	s, err := startServers(ctx, dir, 3, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	nc, err := s.connect()
	if err != nil {
		return err
	}
	f.Log("filling the streams of three servers with %d sessions", f.Cluster)
	err = Fill(ctx, nc, f.Cluster, 3)
	nc.Close()
	if err != nil {
		return err
	}
	c, err := start(ctx, "scheduler", 1, orders{URL: s.url(), Name: "three"})
	if err != nil {
		return err
	}
	var ready Folded
	if err := c.hear(&ready); err != nil {
		return err
	}
	f.Clustered, err = f.late(ctx, s, f.Cluster, runningOf, f.Three)
	return errors.Join(err, c.end())
}
