package session

import (
	"cmp"
	"fmt"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Fresh gives the cause for which a suspended session's command is to be started again in place of its
// image; "" if it isn't. It goes by what is proven alone: its last resume failed, the record says why no
// resume of that image can work, and its policy, or itself, was told fresh. What the record leaves out
// (a glance has no head, no lineage and no notice) hinders nothing: ask again with all of it.
func Fresh(r schemas.SessionRecord, p Policy) schemas.Cause {
	f := r.Failure
	switch {
	case cmp.Or(r.OnResume, p.OnResume) != schemas.ResumeFresh:
	case r.State != schemas.Suspended || r.Op != nil || r.Exit != nil:
	case f == nil || f.Op != schemas.OpResume:
	case r.Notice != nil && len(r.Notice.Kept) >= schemas.MaxKept:
	case r.Head != nil && BootOf(r) == schemas.BootFork: // its image is another session's
	default:
		return f.Cause
	}
	return ""
}

// FreshStart gives the transition that starts a session's command in place of its image, as Fresh says
// for the cause. What it was to go on from is kept by the notice from now on.
func FreshStart(r schemas.SessionRecord, cause schemas.Cause, seq uint64, now time.Time) schemas.Transition {
	op := schemas.NewOp(schemas.OpStart, seq, now)
	op.Boot, op.Back = schemas.BootClean, true
	n := schemas.Notice{Text: "restarted without its memory: " + cause.Phrase(), Cause: cause, At: now.UTC()}
	if r.Failure != nil {
		n.Detail = r.Failure.Text
	}
	if r.Notice != nil {
		n.Kept = append(n.Kept, r.Notice.Kept...)
	}
	if r.Head != nil {
		n.Kept = append(n.Kept, *r.Head)
	}
	op.Notice = &n
	return schemas.Transition{
		Type: schemas.TRestart, Reason: fmt.Sprintf("%s; its policy says fresh", cause.Phrase()), Op: op.ID, Set: schemas.Set{Op: op},
	}
}

// The pauses between resumes of one session that fail again and again.
const (
	doublings   = 8
	longestWait = time.Hour
	untroubled  = 2 // failures in a row after which who asks is still let try at once
)

// Retry is when activity resumes a session again whose resumes failed; the zero time if none did.
func Retry(f *schemas.Failure, since time.Time, p Policy) time.Time {
	if f == nil || f.Op != schemas.OpResume {
		return time.Time{}
	}
	pause := min(p.Backoff<<min(max(f.Resumes-1, 0), doublings), max(longestWait, p.Backoff))
	return since.Add(pause)
}

// RetryAsked is Retry for who asks for the session and waits: the first failures don't hold that up.
func RetryAsked(f *schemas.Failure, p Policy) time.Time {
	if f == nil || f.Resumes <= untroubled {
		return time.Time{}
	}
	return Retry(f, f.At, p)
}
