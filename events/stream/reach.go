package stream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A reader that is behind hears nothing of what was said a moment ago, and can't tell that
// from silence. So it looks, when it is asked to and now and then, how far the stream is, and tells in the
// order of what is heard up to when all was: it asks at a time, and tells that time once all that
// the stream had then has been given.

// soundEvery is how often it is looked how far the stream is, restEvery how often while nothing
// is heard: a machine without sessions is to do nothing. soundWait is how long an answer may take: one
// that comes later says nothing of now.
// againEvery is how often it is looked when that fails.
const (
	soundEvery = 250 * time.Millisecond
	againEvery = time.Second
	restEvery  = 10 * time.Second
	soundWait  = 5 * time.Second
)

// stuckGoal is how long a message may not be given until it is looked whether it is still
// to come: the last ones may have run out, or have been replaced, before they were read.
const stuckGoal = time.Second

// reach is how far a reader is.
type reach struct {
	mu       sync.Mutex // held while fn is called: what is told comes in order
	fn       func(Heard)
	stream   jetstream.Stream
	consumer jetstream.Consumer // that is read from; nil while there is none
	seq      uint64             // of the stream, of what was given last
	goal     uint64             // what the stream had at a time, and hasn't been given; 0 if all has
	at       time.Time
	sounded  uint64        // seq, when it was last looked
	probe    uint64        // seq of the last probe
	much     chan struct{} // holds a token when it is time for the next one
}

// hear gives a message.
func (r *reach) hear(h Heard, meta *jetstream.MsgMetadata) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fn(h)
	r.passed(meta.Sequence.Stream)
}

// pass takes in a message that is told to none.
func (r *reach) pass(meta *jetstream.MsgMetadata) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed(meta.Sequence.Stream)
}

// passed is called with mu held.
func (r *reach) passed(seq uint64) {
	if r.seq = seq; seq >= r.probe+probeAfter {
		select {
		case r.much <- struct{}{}:
		default:
		}
	}
	if r.goal > 0 && r.seq >= r.goal {
		r.reached()
	}
}

// tell gives what is no message.
func (r *reach) tell(h Heard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fn(h)
}

// probeAfter is how much is heard until the next probe.
const probeAfter = roomBefore / 8

// reached is called with mu held.
func (r *reach) reached() {
	r.goal = 0
	r.fn(Heard{Through: r.at})
}

// opened says what is read from now on; nil for nothing.
func (r *reach) opened(c jetstream.Consumer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.consumer = c
}

// sound looks how far the stream is, when it is asked to and again and again until ctx ends.
func (r *reach) sound(ctx context.Context, js jetstream.JetStream, n Names, asks <-chan struct{}) {
	timer := time.NewTimer(soundEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-asks:
		case <-ctx.Done():
			return
		}
		timer.Reset(r.pause())
		if at, stuck := r.pending(); !at.IsZero() {
			if stuck {
				r.settle(ctx)
			}
			continue
		}
		at := time.Now()
		patient, cancel := context.WithTimeout(ctx, soundWait)
		last, err := LastActivity(patient, js, n)
		cancel()
		switch { // the answer may be waited for
		case err != nil:
			timer.Reset(againEvery)
		case !r.aim(last, at):
			timer.Reset(soundEvery)
		}
	}
}

// pause is how long to wait before the next look. Who is behind, or hears something, looks often:
// silence is told by the messages themselves when there are any.
func (r *reach) pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	quiet := r.goal == 0 && r.seq == r.sounded
	if r.sounded = r.seq; quiet {
		return restEvery
	}
	return soundEvery
}

// pending says since when something is to be given, and whether that is long ago.
func (r *reach) pending() (at time.Time, stuck bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.goal == 0 {
		return time.Time{}, false
	}
	return r.at, time.Since(r.at) > stuckGoal
}

// aim has it told when all up to a message has been given, which the stream had at a time. It
// reports whether that is known already.
func (r *reach) aim(last uint64, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.consumer == nil {
		return false // what comes meanwhile is told as a gap
	}
	if r.goal, r.at = last, at; r.seq >= last {
		r.reached()
	}
	return r.goal == 0
}

// settle looks whether there is anything to come, where all of the stream is: what the
// consumer reads from may be a replica that is behind, and know of nothing.
func (r *reach) settle(ctx context.Context) {
	r.mu.Lock()
	c, seq := r.consumer, r.seq
	r.mu.Unlock()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, soundWait)
	defer cancel()
	at := time.Now()
	next, err := r.stream.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(">"))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.consumer != c || r.goal == 0:
	case errors.Is(err, jetstream.ErrMsgNotFound):
		r.at, r.seq = at, max(r.seq, r.goal)
		r.reached()
	case err == nil && next.Sequence > r.goal:
		r.reached()
	}
}
