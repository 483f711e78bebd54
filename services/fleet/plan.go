package fleet

import "github.com/diapause/diapause/schemas"

// Step is what can be done for a session whose host is gone.
type Step string

// The steps.
const (
	Leave Step = "leave" // it stays its host's, who may come back
	// Begin has another host do what was asked for and has not run: a start, a resume, or the making of a template.
	Begin Step = "begin"
	// GoOn resumes a session that moved, and was suspended, where it goes.
	GoOn Step = "go on"
	// Adopt makes the image that is durable already the one to go on from. Without such
	// an image the session is what it was before the suspend: see TakeOver.
	Adopt Step = "adopt"
	// TakeOver resumes the last snapshot on another host.
	TakeOver Step = "take over"
)

// Plan decides. A session that was never captured is left even if it may be taken
// over: there is nothing to go on from, and its host may come back with it.
func Plan(r schemas.SessionRecord) Step {
	switch r.State {
	case schemas.Starting, schemas.Resuming, schemas.Template:
		if r.Op != nil {
			return Begin
		}
	case schemas.Suspending:
		if r.Op != nil {
			return Adopt
		}
	case schemas.Suspended:
		if r.Op != nil && r.Op.Move != nil && r.Head != nil {
			return GoOn
		}
	case schemas.Running:
		return afterLoss(r)
	}
	return Leave
}

// afterLoss decides about a session that may have run.
func afterLoss(r schemas.SessionRecord) Step {
	ending := r.Op != nil && r.Op.Kind == schemas.OpKill
	if r.OnLoss == schemas.LossResume && r.Head != nil && !ending {
		return TakeOver
	}
	return Leave
}
