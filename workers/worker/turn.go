package worker

import (
	"context"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/turns"
)

// What an operation takes of this process's memory, in bytes: operationMemory for buffers of
// the image, encoders and decoders at any size, and as much as the session has, up to
// imageMemory. Images in memory beside it are the driver's to bound.
const (
	operationMemory = 32 << 20
	imageMemory     = 256 << 20
)

// turn waits until the record's operation may go on beside the others of this host, and says
// in its progress that it waits. An operation that waits hasn't touched the session.
func (r *recorder) turn(ctx context.Context, q *turns.Queue, rec statekv.Versioned, laps *driver.Laps) (done func(), err error) {
	began, stop := time.Now(), func() {}
	done, err = q.Take(ctx, rec.UID, requestOf(rec.SessionRecord), func(place schemas.QueuePlace) {
		r.log.Info("waits for other operations", rec.Logged("kind", rec.Op.Kind, "queue", place)...)
		stop = r.progresses(rec.SessionRecord, began, "queue", func() int64 { return 0 }, 0)
		laps.Mark("prepare")
	})
	stop()
	if time.Since(began) >= time.Millisecond {
		laps.Mark("queue")
	}
	return done, err
}

// requestOf gives how urgent an operation is, and what it takes. A session that was never
// captured has no size yet.
func requestOf(rec schemas.SessionRecord) turns.Request {
	r := turns.Request{Class: turns.Asked, Bytes: operationMemory}
	switch {
	case rec.Op.Kind == schemas.OpResume:
		r.Class = turns.Wake
	case rec.Op.Idle:
		r.Class = turns.Idle
	}
	if rec.Size != nil {
		r.Bytes += min(rec.Size.Logical, imageMemory)
	}
	return r
}
