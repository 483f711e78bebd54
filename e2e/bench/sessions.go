package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Size is how much MeasureSessions measures.
type Size struct {
	Small    int           // rounds of small sessions
	Idle     int           // sessions
	Together int           // sessions
	Forks    int           // processes of the larger session that is rehearsed
	ForksMB  int           // and its memory
	Rehearse int           // rounds of that one, and of a small one
	Settle   time.Duration // before something is watched
	Over     time.Duration // for so long idle sessions are watched
}

// Costs are what small, idle and many sessions cost.
type Costs struct {
	Small    Small
	Idle     Idle
	Shells   Idle
	Together Together

	Rehearsals []Rehearsal
}

// MeasureSessions measures all of them with a daemon of its own each.
func MeasureSessions(ctx context.Context, size Size) (c Costs, err error) {
	dir, binary, err := scratch()
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, part := range []struct {
		name    string
		measure func(*local.Daemon) error
	}{
		{"small", func(d *local.Daemon) (err error) {
			c.Small, err = MeasureSmall(ctx, d, size.Small, "small")
			return err
		}},
		{"idle", func(d *local.Daemon) (err error) {
			c.Idle, err = MeasureIdle(ctx, d, size.Idle, size.Settle, size.Over)
			return err
		}},
		{"shells", func(d *local.Daemon) (err error) {
			c.Shells, err = MeasureIdleShells(ctx, d, size.Idle, size.Settle, size.Over)
			return err
		}},
		{"together", func(d *local.Daemon) (err error) {
			c.Together, err = MeasureTogether(ctx, d, size.Together, size.Settle)
			return err
		}},
		{"rehearsed", func(d *local.Daemon) error {
			for _, r := range []Rehearsal{{Processes: 1, MB: 1}, {Processes: size.Forks, MB: size.ForksMB}} {
				r, err := MeasureRehearsal(ctx, d, size.Rehearse, r.Processes, r.MB)
				if err != nil {
					return err
				}
				c.Rehearsals = append(c.Rehearsals, r)
			}
			return nil
		}},
	} {
		d, err := local.Start(ctx, binary, filepath.Join(dir, part.name))
		if err != nil {
			return c, err
		}
		err = errors.Join(part.measure(d), d.Stop(context.WithoutCancel(ctx)))
		if err != nil {
			return c, fmt.Errorf("%s sessions: %w", part.name, err)
		}
	}
	return c, nil
}

const sessionsPreface = `# Small, idle and many sessions

Written by ` + "`make bench`" + `; don't edit.

- commit: %s
- machine: %s
- criu: %s
- at: %s; load average before the run: %s

A small session is a plain bash on a terminal, run, suspended and resumed once; the times
are milliseconds, medians of %d sessions, as the caller of the command line sees them, its start
included; frozen, durable and restore are stages of the record.

| run | suspend | of that frozen | durable | ensure | of that restore |
| --: | --: | --: | --: | --: | --: |
| %d | %d | %d | %d | %d | %d |

Idle sessions sleep, without network and terminal, or are a bash on a terminal with the network that
sessions have by default, suspended and resumed once; CPU is percent of one core over %s, memory what a process holds without
its program's file, its share of what it shares with others.

| sessions | up's CPU | shims' CPU, together | up's memory MB | each shim's memory MB |
| --: | --: | --: | --: | --: |
| 0 | %.2f | | %.1f | |
| %d | %.2f | %.2f | %.1f | %.1f |
| %d, bash, resumed once | %.2f | %.2f | %.1f | %.1f |

Many sessions of some 3 MB are suspended at once, then resumed at once, each by a command of
its own; times are seconds from the common begin. The peak is the most that ` + "`up`" + ` had in memory.

| sessions | suspend, median | suspend, last | ensure, median | ensure, last | up's peak MB | up's memory MB, later |
| --: | --: | --: | --: | --: | --: | --: |
| %d | %.2f | %.2f | %.2f | %.2f | %.0f | %.0f |
`

// Table makes the document; load is what the machine did besides.
func (c Costs) Table(ctx context.Context, load string) []byte {
	var b bytes.Buffer
	ms := time.Duration.Milliseconds
	mb := func(n int64) float64 { return float64(n) / 1e6 }
	s, i, r, t := c.Small, c.Idle, c.Shells, c.Together
	fmt.Fprintf(&b, sessionsPreface, local.Commit(ctx), local.Machine(), local.CriuVersion(ctx), time.Now().UTC().Format(time.RFC3339), load,
		s.Rounds, ms(s.Run), ms(s.Suspend), ms(s.Frozen), ms(s.Durable), ms(s.Ensure), ms(s.Restore),
		i.Over, 100*i.EmptyCPU, mb(i.EmptyMemory), i.Sessions, 100*i.UpCPU, 100*i.ShimsCPU, mb(i.UpMemory), mb(i.ShimsMemory),
		r.Sessions, 100*r.UpCPU, 100*r.ShimsCPU, mb(r.UpMemory), mb(r.ShimsMemory),
		t.Sessions, t.Suspend.Median.Seconds(), t.Suspend.Last.Seconds(), t.Wake.Median.Seconds(), t.Wake.Last.Seconds(), mb(t.UpPeak), mb(t.UpRest))
	b.WriteString(rehearsalTable(c.Rehearsals))
	return b.Bytes()
}
