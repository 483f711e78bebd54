package compat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/compat/programs"
	"github.com/diapause/diapause/schemas"
)

// Row is what became of one program.
type Row struct {
	Program programs.Program
	Version string
	Cycles  []Cycle // as many as succeeded
	Err     error   // why there are no more
}

// Cycle is one suspend and resume.
type Cycle struct {
	Captured, New, Stored   int64         // bytes
	Frozen, Durable, Resume time.Duration // the last as its caller sees it
	Used                    local.Used    // after the resume
	Awake                   int64         // of a desktop: bytes of memory before the suspend
	Frame                   time.Duration // of a desktop: from the call that resumes it until a VNC client had all of the screen
}

// Rounds is how often a whole run suspends and resumes each program.
const Rounds = 10

// Run is how RunAll treats each program.
type Run struct {
	Rounds  int
	Control bool // the session is never suspended: what fails then isn't Diapause's fault
}

// programTime bounds all that is done with one program.
const programTime = 15 * time.Minute

// RunAll runs one program after the other and tells each row as it is done.
func RunAll(ctx context.Context, d *local.Daemon, all []programs.Program, how Run, tell func(Row)) []Row {
	var rows []Row
	for i, p := range all {
		row := run(ctx, d, p, fmt.Sprintf("program-%d", i), how)
		tell(row)
		rows = append(rows, row)
	}
	return rows
}

func run(ctx context.Context, d *local.Daemon, p programs.Program, name string, how Run) Row {
	row := Row{Program: p}
	if row.Err = p.Missing(); row.Err != nil {
		return row
	}
	ctx, cancel := context.WithTimeout(ctx, programTime)
	defer cancel()
	if row.Version, row.Err = p.VersionHere(ctx); row.Err != nil {
		return row
	}
	s, err := begin(ctx, d, p, name)
	if err != nil {
		row.Err = err
		return row
	}
	row.Err = row.cycles(ctx, s, how)
	// What a failed session printed goes with it: its state is worth more now.
	if row.Err != nil {
		if out, err := s.Output(context.WithoutCancel(ctx)); err == nil && strings.TrimSpace(out) != "" {
			row.Err = fmt.Errorf("%w; it printed %q", row.Err, tail(out))
		}
	}
	row.Err = errors.Join(row.Err, s.Remove(context.WithoutCancel(ctx)))
	return row
}

// begin starts a program.
func begin(ctx context.Context, d *local.Daemon, p programs.Program, name string) (*local.Session, error) {
	if p.Desktop != nil {
		return d.Desktop(ctx, name, p.Desktop.App, p.Flags, p.Command...)
	}
	return d.Run(ctx, name, p.Flags, p.Command...)
}

// tail is the end of a long text.
func tail(s string) string {
	const most = 300
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}

func (r *Row) cycles(ctx context.Context, s *local.Session, how Run) error {
	if err := r.Program.Prepare(ctx, s); err != nil {
		return fmt.Errorf("before the first suspend: %w", err)
	}
	for round := 1; round <= how.Rounds; round++ {
		var c Cycle
		if !how.Control {
			var err error
			if c, err = cycle(ctx, s, r.Program.Desktop != nil); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		if err := r.Program.Check(ctx, s, programs.Round{N: round, Last: round == how.Rounds}); err != nil {
			return fmt.Errorf("after resume %d: %w", round, err)
		}
		r.Cycles = append(r.Cycles, c)
	}
	return r.grew()
}

func cycle(ctx context.Context, s *local.Session, desktop bool) (Cycle, error) {
	awake, err := s.View(ctx)
	if err != nil {
		return Cycle{}, err
	}
	v, err := s.Suspend(ctx)
	if err != nil {
		return Cycle{}, err
	}
	t, err := s.Last(ctx, schemas.TSuspended)
	if err != nil {
		return Cycle{}, err
	}
	if v.Snapshot == nil {
		return Cycle{}, errors.New("a suspended session without a snapshot")
	}
	c := Cycle{
		Captured: v.Snapshot.LogicalBytes, New: v.Snapshot.NewBytes, Stored: v.Snapshot.StoredBytes,
		Frozen: Took(t.Stages, "frozen"), Durable: Took(t.Stages, "durable"),
	}
	if desktop {
		c.Awake = awake.RSSBytes
		r, err := s.Restore(ctx)
		if err != nil {
			return Cycle{}, err
		}
		c.Resume, c.Frame = r.Answered, r.Shown
	} else {
		begin := time.Now()
		if _, err := s.Ensure(ctx); err != nil {
			return Cycle{}, err
		}
		c.Resume = time.Since(begin)
	}
	c.Used, err = s.Used(ctx)
	return c, err
}

// Took is the time of a stage, 0 if there is none of that name.
func Took(stages []schemas.Stage, name string) time.Duration {
	for _, s := range stages {
		if s.Name == name {
			return time.Duration(s.MS) * time.Millisecond
		}
	}
	return 0
}
