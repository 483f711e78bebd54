package recordings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// Commands are those of a session's terminal, the last one first. It is for one goroutine.
type Commands struct {
	reader  *Reader
	lists   *recording.Lists
	dropped int
	bad     int
	why     error
}

// Commands finds the commands of a session, up to now if it runs here and was sealed, or else up to its suspend or its end.
// Of one that isn't recorded there are none.
func (s *Spool) Commands(ctx context.Context, r schemas.SessionRecord) (*Commands, error) {
	reader := &Reader{spool: s, place: placeOf(r), keys: map[string]age.Identity{}}
	out := &Commands{reader: reader, lists: recording.FollowLists(s.Objects, reader.place, nil, nil)}
	if r.Lineage == "" {
		return out, nil
	}
	objects := impatient{s.Objects, answerWait}
	end, known, err := s.end(ctx, r)
	if err == nil && end == nil && !known {
		var tip *recording.Segment
		if tip, _, err = recording.Tip(ctx, objects, reader.place, s.Snapshots.Signers(ctx, r.Tenant)); tip != nil {
			end = &tip.Ref
		}
	}
	var redacted *recording.Redaction
	if err == nil && end != nil {
		redacted, err = late{s}.redacted(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("find the commands of session %s: %w", r.Name(), err)
	}
	out.lists = recording.FollowLists(objects, reader.place, end, redacted)
	return out, nil
}

// Each calls fn with the commands, each once, as it was last known. A list that can't be read is passed over: Missing says so.
// fn's error is returned as it is.
func (c *Commands) Each(ctx context.Context, fn func(schemas.TypedCommand) error) error {
	before := int64(math.MaxInt64)
	for {
		list, dropped, err := c.lists.Next(ctx, c.key)
		if errors.Is(err, io.EOF) {
			if c.bad == 0 && c.lists.Shortened() {
				c.why = errShortened
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.dropped += dropped
		if err != nil {
			c.bad++
			c.why = err
		}
		for _, command := range slices.Backward(list) {
			if command.Number >= before {
				continue // it ran when this list was sealed
			}
			before = command.Number
			if err := fn(command); err != nil {
				return err
			}
		}
	}
}

// errShortened: there were older commands.
var errShortened = errors.New("the oldest commands were deleted for room")

// Missing says how many commands weren't kept, how many lists can't be read, and why that is of the last one; up to where Each came. If
// all lists that are there can be read, why is that older ones were deleted.
func (c *Commands) Missing() (dropped, lists int, why error) { return c.dropped, c.bad, c.why }

func (c *Commands) key(ctx context.Context, run string) (age.Identity, error) {
	return c.reader.key(ctx, recording.Segment{Ref: recording.Ref{Run: run}})
}
