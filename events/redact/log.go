package redact

import (
	"iter"

	"github.com/diapause/diapause/events/attach/backlog"
)

// Log takes what match finds out of what is kept of a command's output, and says whether there was something.
func Log(log *backlog.Log, match Matcher) (changed bool) {
	log.Change(func(all iter.Seq2[backlog.Stream, []byte]) {
		for _, of := range []backlog.Stream{backlog.Out, backlog.Err} {
			var found []Range
			f := NewFinder(match, func(r Range, _ bool) { found = append(found, r) })
			for stream, b := range all {
				if stream == of {
					f.Write(b)
				}
			}
			f.End()
			found = Merge(found)
			changed = changed || len(found) > 0
			at := int64(0)
			for stream, b := range all {
				if stream == of {
					Mask(b, at, found)
					at += int64(len(b))
				}
			}
		}
	})
	return changed
}
