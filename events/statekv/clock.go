package statekv

import (
	"context"
	"fmt"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Now tells the time by the clock of the log, which Versioned.Stored is by, too: hosts' own
// clocks may be off by anything.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the log for the time: %w", err)
	}
	return info.TimeStamp, nil
}

// InStateSince tells since when a session has been in its state, by the clock of the log;
// its record's Since is by the clock of the host that said so.
func (s *Store) InStateSince(ctx context.Context, n schemas.Name) (time.Time, error) {
	all, err := s.History(ctx, n)
	if err != nil {
		return time.Time{}, err
	}
	last := len(all) - 1
	since := all[last].Stored
	for i := last; i >= 0 && all[i].UID == all[last].UID && all[i].State == all[last].State; i-- {
		since = all[i].Stored
	}
	return since, nil
}

// ArchivedSince is when a session came to be in the archive, by the clock of the log.
func (s *Store) ArchivedSince(ctx context.Context, n schemas.Name) (time.Time, error) {
	all, err := s.History(ctx, n)
	if err != nil {
		return time.Time{}, err
	}
	last := len(all) - 1
	since := all[last].Stored
	for i := last; i >= 0 && all[i].UID == all[last].UID && all[i].Archived != nil; i-- {
		since = all[i].Stored
	}
	return since, nil
}
