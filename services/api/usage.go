package api

import (
	"context"
	"time"

	"github.com/diapause/diapause/schemas"
	metering "github.com/diapause/diapause/services/usage"
)

// listedSessions bounds the sessions in one answer; more have their sums alone.
const listedSessions = 1000

// usage says what sessions used, from the log.
func (s *views) usage(ctx context.Context, req request) (any, error) {
	w := metering.Want{Tenant: req.Tenant, To: time.Now().UTC(), Most: listedSessions}
	if req.Name != "" {
		n, err := name(req.Name)
		if err != nil {
			return nil, err
		}
		w.Tenant, w.Session = n.Tenant, n.Session
	}
	if w.Tenant != "" && !schemas.ValidToken(string(w.Tenant)) {
		return nil, schemas.UsageError("tenant %q: want 1 to 64 letters, digits, - or _", w.Tenant)
	}
	if u := req.Usage; u != nil {
		if !u.To.IsZero() {
			w.To = u.To.UTC()
		}
		w.From = u.From.UTC()
		if u.Since > 0 {
			w.From = w.To.Add(-time.Duration(u.Since))
		}
		if err := daily(&w, u.By); err != nil {
			return nil, err
		}
	}
	if !w.From.Before(w.To) {
		return nil, schemas.UsageError("usage from %s to %s: the end comes first", w.From.Format(time.RFC3339), w.To.Format(time.RFC3339))
	}
	report, err := metering.Log{JS: s.js, Names: s.names, Records: s.records, Past: s.past}.Report(ctx, w)
	if err == nil && w.Session != "" && len(report.Sessions) == 0 {
		_, err = s.records.Get(ctx, schemas.Name{Tenant: w.Tenant, Session: w.Session}) // there may never have been one
	}
	s.quotas.quotas(&report)
	return report, err
}

const (
	usualDays = 30  // of sums by day, if no time is asked for
	mostDays  = 366 // that one answer has
)

// daily has whole days counted if sums by day are wanted.
func daily(w *metering.Want, by schemas.UsageBy) error {
	const day = 24 * time.Hour
	switch by {
	case "":
		return nil
	case schemas.ByDay:
	default:
		return schemas.UsageError("usage by %q: want by day", by)
	}
	if w.From.IsZero() {
		w.From = w.To.Add(-(usualDays - 1) * day)
	}
	w.From, w.Daily = w.From.Truncate(day), true
	if n := w.To.Sub(w.From) / day; n > mostDays {
		return schemas.UsageError("usage by day of %d days: want %d at most", n, mostDays).WithHint("ask for a later beginning, such as since 30d")
	}
	return nil
}
