package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// RefusedEverywhere reports whether all hosts that fit are among those that refused an image, at the time of the last of
// them. One that is gone or cordoned may take it yet, and so may one that was started since, perhaps of another
// version: as long as there is such a host that fits, they haven't.
func RefusedEverywhere(hosts []Host, w Want, refused []schemas.HostID, at time.Time) bool {
	fits := 0
	for _, h := range hosts {
		h.Gone, h.Cordoned = false, false
		if _, why := canTake(h, w); why != "" {
			continue
		}
		if fits++; !slices.Contains(refused, h.Host.Host) || h.Started.After(at) {
			return false
		}
	}
	return fits > 0
}

// refusedEverywhere asks that of a session whose resume failed.
func (f *Fleet) refusedEverywhere(ctx context.Context, v statekv.Versioned, need schemas.Fingerprint) (bool, error) {
	hosts, err := f.Hosts(ctx)
	if err != nil {
		return false, err
	}
	w := Want{Session: v.Name(), Placement: v.Placement, Need: need, Knows: v.Needs}
	return RefusedEverywhere(hosts, w, v.Failure.Refused, v.Failure.At), nil
}

// unresumable notes of a session that every host which fits has refused its image, if that is so.
func (f *Fleet) unresumable(ctx context.Context, v failed, need schemas.Fingerprint) error {
	if len(v.Failure.Refused) == 0 {
		return nil
	}
	everywhere, err := f.refusedEverywhere(ctx, v.Versioned, need)
	if err != nil || !everywhere {
		return err
	}
	return f.cause(ctx, v.Versioned, schemas.CauseRefused, "every host that fits has refused its image")
}

// cause notes why a session can't be resumed, unless it has gone on.
func (f *Fleet) cause(ctx context.Context, v statekv.Versioned, cause schemas.Cause, reason string) error {
	why := *v.Failure
	why.Cause = cause
	_, err := f.Records.Swap(ctx, v, schemas.Transition{Type: schemas.TUnresumable, Reason: reason, Actor: f.Actor, Set: schemas.Set{Failure: &why}})
	if errors.Is(err, statekv.ErrConflict) || errors.Is(err, session.ErrIllegal) {
		return nil
	}
	return err
}

// hasRefused reports whether a session sleeps of which is noted that no host can resume it.
func hasRefused(r schemas.SessionRecord) bool {
	return r.State == schemas.Suspended && r.Op == nil && r.Failure != nil && r.Failure.Cause == schemas.CauseRefused
}

// lookAgain takes back what was noted of sessions for which there is a host now that may resume them.
func (f *Fleet) lookAgain(ctx context.Context) {
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.refused))
	f.mu.Unlock()
	for _, n := range all {
		if err := f.lookAgainAt(ctx, n); err != nil && ctx.Err() == nil {
			f.Log.Warn("whether a host can resume a session isn't known", "session", n.String(), "err", err)
		}
	}
}

func (f *Fleet) lookAgainAt(ctx context.Context, n schemas.Name) error {
	v, err := f.Records.Get(ctx, n)
	if err != nil || !hasRefused(v.SessionRecord) || v.Head == nil {
		return err
	}
	header, err := f.header(ctx, v.SessionRecord, *v.Head)
	if err != nil {
		return err
	}
	everywhere, err := f.refusedEverywhere(ctx, v, header.Fingerprint)
	if err != nil || everywhere {
		return err
	}
	return f.cause(ctx, v, "", "a host that fits may take its image now")
}
