package worker

import (
	"time"

	"github.com/diapause/diapause/schemas"
)

// progressEvery is how often a step that takes long says how far it is.
const progressEvery = time.Second

// progress publishes how far an op is, for those who watch. It is not kept.
func (r *recorder) progress(rec schemas.SessionRecord, began time.Time, stage string, bytes int64) {
	r.progressOf(rec, began, stage, bytes, 0)
}

func (r *recorder) progressOf(rec schemas.SessionRecord, began time.Time, stage string, bytes, of int64) {
	p := schemas.Progress{Op: opID(rec), Stage: stage, MS: time.Since(began).Milliseconds(), Bytes: bytes, Of: of}
	if rec.Op != nil {
		p.Kind = rec.Op.Kind
	}
	r.bus.Progress(rec.Name(), p)
}

// progresses publishes the progress of a step when it begins, and every second until stop is
// called: so gives the bytes that went through it, of is how many there are, 0 if unknown.
func (r *recorder) progresses(rec schemas.SessionRecord, began time.Time, stage string, so func() int64, of int64) (stop func()) {
	r.progressOf(rec, began, stage, 0, of)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() { // until stop
		defer close(ended)
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				r.progressOf(rec, began, stage, so(), of)
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
