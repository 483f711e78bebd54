package worker

import (
	"time"

	"github.com/diapause/diapause/schemas"
)

// progressEvery is how often a step that takes long says how far it is.
const progressEvery = time.Second

// progress tells whoever listens how far an op is. It is not kept.
func (w *Worker) progress(r schemas.SessionRecord, began time.Time, stage string, bytes int64) {
	w.progressOf(r, began, stage, bytes, 0)
}

func (w *Worker) progressOf(r schemas.SessionRecord, began time.Time, stage string, bytes, of int64) {
	p := schemas.Progress{Op: opID(r), Stage: stage, MS: time.Since(began).Milliseconds(), Bytes: bytes, Of: of}
	if r.Op != nil {
		p.Kind = r.Op.Kind
	}
	w.Bus.Progress(r.Name(), p)
}

// progresses tells the same of a step at its begin, and again and again until stop is
// called; so says how many bytes went through it, of so many if that is known.
func (w *Worker) progresses(r schemas.SessionRecord, began time.Time, stage string, so func() int64, of int64) (stop func()) {
	w.progressOf(r, began, stage, 0, of)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() { // until stop
		defer close(ended)
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				w.progressOf(r, began, stage, so(), of)
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
