package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// recorder is a Bus that keeps what was heard for `policy simulate`.
type recorder interface {
	UseHistory(ctx context.Context, d schemas.UseHistory) error
}

// What is recorded, and how: silences that are long enough for some grace to end in them,
// many in one message. What a scheduler that dies hasn't written is lost, and `policy
// simulate` takes that time for use.
const (
	silenceMin   = 20 * time.Second
	historyEvery = 10 * time.Second
	historyBatch = 2000 // silences in one message
	historyMost  = 50 * historyBatch
)

// history gathers the silences that ended, and the uses of sessions. Only the loop's
// goroutine calls its methods.
type history struct {
	to      recorder
	writer  string
	page    []schemas.Silence
	uses    uses
	written time.Time
	writing bool
}

// newHistory gives nil if the bus records nothing.
func newHistory(b Bus) *history {
	to, ok := b.(recorder)
	if !ok {
		return nil
	}
	return &history{to: to, writer: nuid.Next(), uses: newUses()}
}

// heard notes the silence that a message ended: was is how it was before, v how it is.
func (j *history) heard(was, used time.Time, v *session.View, m *session.Message, p session.Policy) {
	if m.At.Sub(was) < silenceMin || was.IsZero() || !v.QuietSince(p).After(was) || len(j.page) >= historyMost {
		return
	}
	j.page = append(j.page, silence(v, was, used, m.At, what(m.Source)))
}

func what(s schemas.Source) string {
	if s.Key == "" {
		return string(s.Kind)
	}
	return string(s.Kind) + "." + s.Key
}

func silence(v *session.View, was, used, to time.Time, what string) schemas.Silence {
	s := schemas.Silence{Name: v.Record.Name().String(), UID: v.Record.UID, From: was.UnixMilli(), To: to.UnixMilli(), What: what}
	if !used.Equal(was) && !used.IsZero() {
		s.Used = used.UnixMilli()
	}
	return s
}

// sweep ends the uses that are over.
func (j *history) sweep(writes bool) {
	if j != nil {
		j.uses.sweep(time.Now(), writes)
	}
}

// due reports whether it is time to write.
func (j *history) due() bool {
	switch since, most := time.Since(j.written), max(len(j.page), len(j.uses.page)); {
	case most == 0:
		return since >= schemas.UseHistoryEvery
	case most < historyBatch:
		return since >= historyEvery
	}
	return true
}

// write publishes what was gathered, now and then, and even if that is nothing: a use history
// that says nothing of a time differs from one that wasn't kept.
func (j *history) write(ctx context.Context, a *actor, heardSince time.Time) {
	if j == nil || j.writing || !j.due() {
		return
	}
	j.written, j.writing = time.Now(), true
	page := schemas.UseHistory{Writer: j.writer, Since: heardSince.UTC(), At: j.written.UTC(), Silences: j.page[:min(len(j.page), historyBatch)], Kinds: true}
	j.page = slices.Clone(j.page[len(page.Silences):])
	page.Uses, page.Lost = j.uses.take()
	a.acts.run(session.Notify, func() {
		ctx, cancel := context.WithTimeout(ctx, historyEvery)
		defer cancel()
		err := j.to.UseHistory(ctx, page)
		if err != nil && ctx.Err() == nil {
			a.log.Warn("silences not recorded; `policy simulate` takes that time for use", "err", err)
		}
		send(ctx, a.asks, func(*loop) { j.writing = false })
	})
}

// Silences gives the silences that go on now of the sessions that in takes.
func (s *Scheduler) Silences(ctx context.Context, in func(schemas.SessionRecord) bool) ([]schemas.Silence, error) {
	var out []schemas.Silence
	now := time.Now()
	err := s.each(ctx, func(l *loop, t *tracked) {
		v := l.table.view(t)
		if !in(v.Record) {
			return
		}
		if was := v.QuietSince(l.table.policy(&v)); was.Before(now) {
			out = append(out, silence(&v, was, v.Last().At, now, ""))
		}
	})
	return out, err
}
