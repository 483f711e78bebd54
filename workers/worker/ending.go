package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/recordings"
	"github.com/diapause/diapause/workers/snapshots"
)

// ending records sessions whose processes have ended.
type ending struct {
	host       schemas.HostID
	recorder   *recorder
	starter    *starter
	snapshots  *snapshots.Store
	recordings *recordings.Spool
	leaver     *leaver
	log        *slog.Logger
}

// ended records that a session ended by itself, or was lost, and removes what is left of it.
func (e *ending) ended(ctx context.Context, d driver.Driver, rec *statekv.Versioned, i driver.Instance) error {
	switch {
	case rec.State != schemas.Running && rec.State != schemas.Suspending:
	case i.Restarted && !killing(rec.SessionRecord) && rec.OnLoss == schemas.LossResume && rec.Head != nil:
		if err := e.leaver.takeBack(ctx, rec); err != nil {
			return err
		}
	case i.Lost && !killing(rec.SessionRecord):
		if err := e.gone(ctx, rec, fmt.Sprintf("its processes on host %s are gone: %s", e.host, i.Exit.Reason)); err != nil {
			return err
		}
	default:
		exit := &schemas.Exit{At: time.Now().UTC()}
		if i.Exit != nil {
			exit.Code, exit.Signal, exit.Reason = i.Exit.Code, i.Exit.Signal, i.Exit.Reason
		}
		if err := saveOutput(ctx, e.snapshots, d, rec.SessionRecord); err != nil {
			e.log.Warn("could not store the last output", rec.Logged("err", err)...)
		}
		if _, err := e.recordings.StoreNow(ctx, rec.UID); err != nil {
			e.log.Warn("could not store the end of the recording yet", rec.Logged("err", err)...)
		}
		next, err := e.recorder.swap(ctx, *rec, schemas.Transition{
			Type: schemas.TExited, Reason: "its command ended by itself", Set: schemas.Set{Exit: exit},
		})
		if err != nil {
			return err
		}
		*rec = next
	}
	defer e.recordings.Tidy(rec.UID)
	return clearEnded(ctx, d, rec.SessionRecord)
}

// clearEnded removes what is left of a session that ended by itself.
func clearEnded(ctx context.Context, d driver.Driver, r schemas.SessionRecord) error {
	if e, ok := d.(driver.Ender); ok {
		return e.Ended(ctx, fenceOf(r))
	}
	return d.Stop(ctx, fenceOf(r))
}

// gone records that a session's processes are gone, and says what it can be resumed from.
func (e *ending) gone(ctx context.Context, rec *statekv.Versioned, text string) error {
	hint := "it was never captured: only `diapause resume --clean` starts it again"
	if rec.Head != nil && rec.Size != nil {
		hint = "`diapause resume` goes on from its last snapshot, of " + rec.Size.At.Format(time.RFC3339)
	}
	if err := e.starter.lost(ctx, *rec, &driver.Error{Kind: driver.Broken, Text: text, Hint: hint}); err != nil {
		return err
	}
	next, err := e.recorder.records.Get(ctx, rec.Name())
	*rec = next
	return err
}

// saveOutput stores what an ended session printed last, if its driver can be asked.
func saveOutput(ctx context.Context, to *snapshots.Store, d driver.Driver, r schemas.SessionRecord) error {
	dialer, ok := d.(driver.Dialer)
	if !ok {
		return nil
	}
	conn, err := dialer.Dial(ctx, r.UID)
	if err != nil {
		return err
	}
	out, err := attach.FetchOutput(conn)
	if err != nil {
		return err
	}
	return to.SaveOutput(ctx, r, out)
}
