package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/schemas"
)

// Small is what a session of a shell takes, the medians of some rounds: as its
// caller sees it, the start of the command line included, and by the record.
type Small struct {
	Rounds               int
	Run, Suspend, Ensure time.Duration
	Frozen, Durable      time.Duration // of the suspend
	Restore              time.Duration // of the resume
}

// MeasureSmall runs, suspends and resumes sessions of a plain shell, each once.
func MeasureSmall(ctx context.Context, d *local.Daemon, rounds int, name string) (Small, error) {
	var all []Small
	for round := range rounds {
		one, err := small(ctx, d, fmt.Sprintf("%s-%d", name, round))
		if err != nil {
			return Small{}, err
		}
		all = append(all, one)
	}
	of := func(figure func(Small) time.Duration) time.Duration {
		var figures []time.Duration
		for _, one := range all {
			figures = append(figures, figure(one))
		}
		slices.Sort(figures)
		return figures[len(figures)/2]
	}
	return Small{
		Rounds:  rounds,
		Run:     of(func(s Small) time.Duration { return s.Run }),
		Suspend: of(func(s Small) time.Duration { return s.Suspend }),
		Ensure:  of(func(s Small) time.Duration { return s.Ensure }),
		Frozen:  of(func(s Small) time.Duration { return s.Frozen }),
		Durable: of(func(s Small) time.Duration { return s.Durable }),
		Restore: of(func(s Small) time.Duration { return s.Restore }),
	}, nil
}

func small(ctx context.Context, d *local.Daemon, name string) (m Small, err error) {
	begin := time.Now()
	s, err := d.Run(ctx, name, []string{"--tty"}, "/bin/bash", "--norc", "--noprofile")
	if err != nil {
		return m, err
	}
	m.Run = time.Since(begin)
	defer func() { err = errors.Join(err, s.Remove(context.WithoutCancel(ctx))) }()
	begin = time.Now()
	if _, err := s.Suspend(ctx); err != nil {
		return m, err
	}
	m.Suspend = time.Since(begin)
	begin = time.Now()
	if _, err := s.Ensure(ctx); err != nil {
		return m, err
	}
	m.Ensure = time.Since(begin)
	for _, part := range []struct {
		of    schemas.TransitionType
		stage string
		to    *time.Duration
	}{
		{schemas.TSuspended, "frozen", &m.Frozen}, {schemas.TSuspended, "durable", &m.Durable}, {schemas.TResumed, "restore", &m.Restore},
	} {
		all, err := stages(ctx, s, part.of)
		if err != nil {
			return m, err
		}
		*part.to, _ = Measurement{Stages: all}.took(part.stage)
	}
	return m, nil
}
