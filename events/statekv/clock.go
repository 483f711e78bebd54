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
	return s.since(ctx, n, func(before, last Versioned) bool { return before.State == last.State })
}

// ArchivedSince is when a session came to be in the archive, by the clock of the log.
func (s *Store) ArchivedSince(ctx context.Context, n schemas.Name) (time.Time, error) {
	return s.since(ctx, n, func(before, _ Versioned) bool { return before.Archived != nil })
}

// since is when the first of a session's last revisions was stored that are all alike.
func (s *Store) since(ctx context.Context, n schemas.Name, alike func(before, last Versioned) bool) (time.Time, error) {
	all, err := s.History(ctx, n)
	if err != nil {
		return time.Time{}, err
	}
	last := all[len(all)-1]
	since := last.Stored
	for i := len(all) - 1; i >= 0 && all[i].UID == last.UID && alike(all[i], last); i-- {
		since = all[i].Stored
	}
	return since, nil
}
