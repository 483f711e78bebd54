package matrix

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// moment is one time at which something goes wrong.
type moment struct {
	failpoint.Name
	nth int // of the times that the verb comes by
}

// verb is one thing that happens to a session, from a state that lasts to another.
type verb struct {
	name    string
	from    schemas.State // where the session is before; "" if there is none
	moments []moment      // all that it comes by
	act     func(ctx context.Context, c *trial) error
	extra   func(c *trial) error // what is arranged besides, before act
	end     ending
}

// ending is what a verb may leave.
type ending int

const (
	goesOn  ending = iota // the session, wherever it stands
	mayBorn               // a session that has counted from the start, or none
	mayEnd                // the session, or what an end leaves of it
	mustGo                // nothing, when it was asked for once more
)

func first(names ...failpoint.Name) (all []moment) {
	for _, n := range names {
		all = append(all, moment{n, 1})
	}
	return all
}

func second(names ...failpoint.Name) (all []moment) {
	for _, n := range names {
		all = append(all, moment{n, 2})
	}
	return all
}

var (
	asked     = []failpoint.Name{failpoint.APIAsked, failpoint.APIRecorded, failpoint.APICommanded}
	decided   = []failpoint.Name{failpoint.SchedulerDecided, failpoint.SchedulerRecorded, failpoint.SchedulerCommanded}
	claimed   = []failpoint.Name{failpoint.WorkerFound, failpoint.WorkerClaimed}
	capturing = []failpoint.Name{
		failpoint.CaptureStarts, failpoint.CaptureTaken, failpoint.ImagePacks, failpoint.ImageKey, failpoint.ImageHeader, failpoint.CaptureDurable,
	}
	reaping   = []failpoint.Name{failpoint.SuspendRecorded, failpoint.ReapHeard, failpoint.ReapKilled, failpoint.ReapRecorded}
	restoring = []failpoint.Name{
		failpoint.ResumeCleared, failpoint.ResumeOpened, failpoint.ResumeRestored, failpoint.ResumeRecorded, failpoint.ResumeDone,
	}
	starting      = []failpoint.Name{failpoint.StartReady, failpoint.StartRecorded, failpoint.StartDone}
	checkpointing = []failpoint.Name{failpoint.CheckpointThawed, failpoint.CheckpointRecorded}
	forking       = []failpoint.Name{failpoint.APIForkHead, failpoint.APIForkMade}
	killing       = []failpoint.Name{failpoint.KillStopped, failpoint.KillRecorded}
	removing      = []failpoint.Name{failpoint.RemoveStopped, failpoint.RemoveUnneeded, failpoint.RemoveDeleted, failpoint.RemoveRecorded}
)

// asks gives an act that is one request.
func asks(what string) func(context.Context, *trial) error {
	return func(ctx context.Context, c *trial) error {
		var out any
		return c.l.ask(ctx, what, schemas.Request{Name: c.name, To: c.copy}, &out)
	}
}

// idles makes the session one that is idle at once.
func idles(_ context.Context, c *trial) error { return c.rule(schemas.Idle{Grace: 1}) }

// isUsed publishes what wakes.
func isUsed(ctx context.Context, c *trial) error {
	_, err := stream.Publisher{JS: c.l.js}.Activity(ctx, c.id(), schemas.KindInput, "", schemas.Activity{})
	return err
}

// hasSnapshot takes one of the session as it is.
func hasSnapshot(c *trial) error { return c.l.do("checkpoint", schemas.Request{Name: c.name}) }

// replaces puts its last snapshot in the session's place.
func replaces(ctx context.Context, c *trial) error {
	var out any
	return c.l.ask(ctx, "replace", schemas.Request{Name: c.name, Within: schemas.Duration(time.Millisecond)}, &out)
}

func verbs() []verb {
	return []verb{
		{name: "suspend", from: schemas.Running, moments: first(slices.Concat(asked, claimed, capturing, reaping)...), act: asks("suspend")},
		{name: "idle", from: schemas.Running, moments: first(slices.Concat(decided, claimed, capturing, reaping)...), act: idles},
		{name: "resume", from: schemas.Suspended, moments: first(slices.Concat(asked, claimed, restoring)...), act: asks("resume")},
		{name: "wake", from: schemas.Suspended, moments: first(slices.Concat(decided, claimed, restoring)...), act: isUsed},
		{name: "checkpoint", from: schemas.Running, moments: first(slices.Concat(asked, claimed, capturing, checkpointing)...), act: asks("checkpoint")},
		{
			name: "fork", from: schemas.Running, act: asks("fork"),
			moments: append(first(slices.Concat(asked, claimed, capturing, checkpointing, forking, restoring)...), second(slices.Concat(asked, claimed)...)...),
		},
		{name: "fork of a suspended one", from: schemas.Suspended, act: asks("fork"), moments: first(slices.Concat(asked, claimed, forking, restoring)...)},
		{
			name: "replace", from: schemas.Running, act: replaces, extra: hasSnapshot,
			moments: append(first(failpoint.ProveStarts), second(failpoint.APIRecorded)...),
		},
		{
			name: "replace by what isn't well", from: schemas.Running, act: replaces,
			moments: append(first(failpoint.FellBack), second(failpoint.ResumeRecorded)...),
			extra: func(c *trial) error {
				c.l.guard.Script("Health", fake.Step{Before: errors.New("ill")})
				return hasSnapshot(c)
			},
		},
		{name: "delete", from: schemas.Running, moments: first(slices.Concat(asked, claimed, removing)...), act: asks("rm"), end: mustGo},
		{name: "delete a suspended one", from: schemas.Suspended, moments: first(slices.Concat(asked, claimed, removing)...), act: asks("rm"), end: mustGo},
		{name: "kill", from: schemas.Running, moments: first(slices.Concat(asked, claimed, killing)...), act: asks("kill"), end: mayEnd},
		{
			name: "run", moments: first(slices.Concat(asked, claimed, starting)...), end: mayBorn,
			act: func(ctx context.Context, c *trial) error {
				var out any
				return c.l.ask(ctx, "run", runRequest(c.name), &out)
			},
		},
		{
			name: "suspend that is undone late", from: schemas.Running, act: asks("suspend"), moments: first(failpoint.ReviveRecorded),
			extra: func(c *trial) error {
				return c.arm(moment{failpoint.SuspendRecorded, 1}, func(ctx context.Context) error { return isUsed(ctx, c) })
			},
		},
		{
			name: "suspend that fails", from: schemas.Running, act: asks("suspend"), moments: first(failpoint.AbortThawed, failpoint.AbortRecorded),
			extra: func(c *trial) error {
				c.l.guard.Script("Capture", fake.Step{Before: &driver.Error{Kind: driver.Transient, Text: "no luck", Err: errors.New("today")}})
				return nil
			},
		},
	}
}
