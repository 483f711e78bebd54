package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/schemas"
)

// Losses are how long sessions of hosts that were killed took to answer elsewhere, least first.
type Losses struct {
	Lease time.Duration
	Took  []time.Duration
}

// MeasureLosses kills the host that a session is on, so many times.
func MeasureLosses(ctx context.Context, lease time.Duration, tries int) (l Losses, err error) {
	dir, binary, err := scratch()
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := []string{"--store", "dir://" + filepath.Join(dir, "images"), "--lease", lease.String()}
	if err := os.Mkdir(filepath.Join(dir, "images"), 0o700); err != nil {
		return l, err
	}
	d, err := local.StartWith(ctx, binary, filepath.Join(dir, "up"), nil, args...)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, d.Stop(context.WithoutCancel(ctx))) }()
	var hosts []*local.Worker
	for _, name := range []string{"a", "b"} {
		w, err := d.AddWorker(ctx, filepath.Join(dir, name), args...)
		if err != nil {
			return l, err
		}
		defer func() { err = errors.Join(err, w.Stop()) }()
		hosts = append(hosts, w)
	}
	s, err := d.Run(ctx, "lost", []string{"--network", "none", "--on-host-loss", "resume", "--host", hosts[0].Host()}, "/bin/sleep", "infinity")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, s.Remove(context.WithoutCancel(ctx))) }()
	l.Lease = lease
	for range tries {
		took, err := lose(ctx, s, hosts)
		if err != nil {
			return l, err
		}
		l.Took = append(l.Took, took)
	}
	slices.Sort(l.Took)
	return l, nil
}

// lose kills the host that the session is on, and gives how long it took until a command in the session
// had answered elsewhere. The host is started again, and has ended what it still ran.
func lose(ctx context.Context, s *local.Session, hosts []*local.Worker) (time.Duration, error) {
	v, err := s.View(ctx)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(hosts, func(w *local.Worker) bool { return w.Host() == string(v.Host) })
	if i < 0 { // the daemon's own host has it: it isn't killed
		if v, err = s.Move(ctx, hosts[0].Host()); err != nil {
			return 0, err
		}
		i = 0
	}
	if err := s.Checkpoint(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := hosts[i].Kill(); err != nil {
		return 0, err
	}
	for from := v.Host; v.Host == from || v.State != schemas.Running; {
		if v, err = s.View(ctx); err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	if _, err := s.Exec(ctx, "", "/bin/true"); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, hosts[i].Start(ctx)
}

const lossesPreface = `# A host that is lost

Written by ` + "`make bench`" + `; don't edit.

- commit: %s
- machine: %s
- criu: %s
- at: %s; load average before the run: %s

The worker of the host that a session is on is killed with ` + "`kill -9`" + `, %d times; the times are seconds until a
command in the session has answered on another host. The store is a directory that the hosts share, the lease %s.

| least | median | p99 | most |
| --: | --: | --: | --: |
| %.1f | %.1f | %.1f | %.1f |

All of them, least first:
`

// Table makes the document; load is what the machine did besides.
func (l Losses) Table(ctx context.Context, load string) []byte {
	var b bytes.Buffer
	at := func(of float64) float64 { return l.Took[int(of*float64(len(l.Took)-1)+0.5)].Seconds() }
	fmt.Fprintf(&b, lossesPreface, local.Commit(ctx), local.Machine(), local.CriuVersion(ctx), time.Now().UTC().Format(time.RFC3339), load,
		len(l.Took), l.Lease, at(0), at(0.5), at(0.99), at(1))
	for i, took := range l.Took {
		if i > 0 {
			b.WriteByte(',')
		}
		if i%10 == 0 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%.1f", took.Seconds())
	}
	b.WriteString(".\n")
	return b.Bytes()
}
