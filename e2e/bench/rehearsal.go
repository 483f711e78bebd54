package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// Rehearsal is what the rehearsal of a suspend takes, the medians of some rounds.
type Rehearsal struct {
	Rounds    int
	Processes int
	MB        int           // of memory, in all of them
	Took      time.Duration // beside the storing of the image
	Waited    time.Duration // for it, when all else of the image was added
	Suspend   time.Duration // as its caller sees it
}

// MeasureRehearsal suspends a session of many processes with mb megabytes in all, and resumes it.
func MeasureRehearsal(ctx context.Context, d *local.Daemon, rounds, processes, mb int) (r Rehearsal, err error) {
	r = Rehearsal{Rounds: rounds, Processes: processes, MB: mb}
	s, err := d.Run(ctx, "rehearsed", []string{"--network", "none"}, drivertest.Forked(processes, mb<<20/processes, "/tmp/ready")...)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Remove(context.WithoutCancel(ctx))) }()
	if _, err := s.Until(ctx, patience, "test -e /tmp/ready"); err != nil {
		return r, err
	}
	var took, waited, whole []time.Duration
	for range rounds {
		begin := time.Now()
		if _, err := s.Suspend(ctx); err != nil {
			return r, err
		}
		whole = append(whole, time.Since(begin))
		all, err := stages(ctx, s, schemas.TSuspended)
		if err != nil {
			return r, err
		}
		m := Measurement{Stages: all}
		n, there := m.took("rehearsal")
		if !there {
			return r, fmt.Errorf("the suspend wasn't rehearsed: its stages are %v", all)
		}
		w, _ := m.took("rehearsal_wait")
		took, waited = append(took, n), append(waited, w)
		if _, err := s.Ensure(ctx); err != nil {
			return r, err
		}
	}
	median := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)/2]
	}
	r.Took, r.Waited, r.Suspend = median(took), median(waited), median(whole)
	return r, nil
}

// rehearsalTable makes a part of the document.
func rehearsalTable(all []Rehearsal) string {
	var b strings.Builder
	b.WriteString(`
A suspend is rehearsed beside the storing of its image; the times are milliseconds, medians. Waited
is what the suspend took longer for it, the suspend's time is the caller's.

| processes | memory MB | rounds | rehearsal | waited | suspend |
| --: | --: | --: | --: | --: | --: |
`)
	for _, r := range all {
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | %d |\n", r.Processes, r.MB, r.Rounds, r.Took.Milliseconds(), r.Waited.Milliseconds(), r.Suspend.Milliseconds())
	}
	return b.String()
}
