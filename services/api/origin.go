package api

import (
	"context"
	"slices"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// origin is what the log says of a snapshot: its header says what is in it, and no more.
type origin struct {
	by, reason string // of who had it made
	restores   int    // how often the session came back from it
	replaced   string // what took its place while the session was suspended as it
}

// origins reads a session's log for what it says of its snapshots, and what keeps it from saying
// more. It reads no further back than the log in NATS if that has all that were asked for.
func (s *snapshots) origins(ctx context.Context, n schemas.Name, of []image.Listed) (origins map[schemas.Head]origin, gap string, err error) {
	revs, err := s.records.History(ctx, n)
	if err != nil {
		return nil, "", err
	}
	origins = originsIn(revs)
	if !slices.ContainsFunc(of, func(l image.Listed) bool { _, known := origins[l.Head]; return !known }) {
		return origins, "", nil
	}
	revs, gaps, err := s.past.History(ctx, n)
	if err != nil {
		return nil, "", err
	}
	if len(gaps) > 0 {
		gap = gaps[0].String()
	}
	return originsIn(revs), gap, nil
}

func originsIn(revs []statekv.Versioned) map[schemas.Head]origin {
	out := map[schemas.Head]origin{}
	asked := map[string]origin{} // by op: who asked for it
	var before schemas.SessionRecord
	for _, v := range revs {
		t := v.Transition
		if op := t.Set.Op; op != nil {
			if _, goesOn := asked[op.ID]; !goesOn { // else it is what remains to be done of it
				asked[op.ID] = origin{by: schemas.Who(t.Actor, t.Note), reason: t.Reason}
			}
		}
		switch {
		case t.Set.Head != nil:
			who, ok := asked[t.Op]
			if !ok { // a snapshot that was found, or is from before the log
				who = origin{by: schemas.Who(t.Actor, t.Note), reason: t.Reason}
			}
			who.restores = out[*t.Set.Head].restores
			out[*t.Set.Head] = who
		case t.Type == schemas.TRedeployed && before.State == schemas.Suspended && before.Head != nil:
			was := out[*before.Head]
			was.replaced = t.Reason
			out[*before.Head] = was
		case t.Type == schemas.TResumed && before.Op != nil && before.Op.Source != nil:
			restored(out, *before.Op.Source, 1)
		case t.Type == schemas.TResumeAgain && before.State == schemas.Running && before.Head != nil:
			restored(out, *before.Head, -1) // it was recorded, and nothing ran
		}
		before = v.SessionRecord
	}
	return out
}

func restored(of map[schemas.Head]origin, head schemas.Head, by int) {
	t := of[head]
	t.restores = max(0, t.restores+by)
	of[head] = t
}
