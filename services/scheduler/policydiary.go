package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// diarist is a Bus that keeps a diary.
type diarist interface {
	Diary(ctx context.Context, d schemas.Diary) error
}

// What is written down, and how: silences that are long enough for some grace to end in
// them, many at a time. What a scheduler that dies hasn't written is lost, and taken for
// use by who reads the diary.
const (
	silenceMin  = 20 * time.Second
	diaryEvery  = 10 * time.Second
	diaryAtOnce = 2000 // silences in one message
	diaryMost   = 50 * diaryAtOnce
)

// diary gathers the silences that ended. Its loop alone touches it.
type diary struct {
	to      diarist
	writer  string
	page    []schemas.Silence
	uses    uses
	written time.Time
	writing bool
}

func newDiary(b Bus) *diary {
	to, ok := b.(diarist)
	if !ok {
		return nil
	}
	return &diary{to: to, writer: nuid.Next(), uses: newUses()}
}

// heard notes the silence that a message ended: was is how it was before, v how it is.
func (d *diary) heard(was, used time.Time, v *session.View, m *session.Message, p session.Policy) {
	if m.At.Sub(was) < silenceMin || was.IsZero() || !v.QuietSince(p).After(was) || len(d.page) >= diaryMost {
		return
	}
	d.page = append(d.page, silence(v, was, used, m.At, what(m.Source)))
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
func (d *diary) sweep(writes bool) {
	if d != nil {
		d.uses.sweep(time.Now(), writes)
	}
}

// due reports whether it is time to write.
func (d *diary) due() bool {
	switch since, most := time.Since(d.written), max(len(d.page), len(d.uses.page)); {
	case most == 0:
		return since >= schemas.DiaryEvery
	case most < diaryAtOnce:
		return since >= diaryEvery
	}
	return true
}

// write publishes what was gathered, now and then, and even if that is nothing: a diary
// that says nothing of a time differs from one that wasn't kept.
func (l *loop) write(ctx context.Context) {
	d := l.diary
	if d == nil || d.writing || !d.due() {
		return
	}
	d.written, d.writing = time.Now(), true
	page := schemas.Diary{Writer: d.writer, Since: l.heardSince.UTC(), At: d.written.UTC(), Silences: d.page[:min(len(d.page), diaryAtOnce)], Kinds: true}
	d.page = slices.Clone(d.page[len(page.Silences):])
	page.Uses, page.Lost = d.uses.take()
	l.acts.run(session.Notify, func() {
		ctx, cancel := context.WithTimeout(ctx, diaryEvery)
		defer cancel()
		err := d.to.Diary(ctx, page)
		if err != nil && ctx.Err() == nil {
			l.s.Log.Warn("diary not written; `policy simulate` takes that time for use", "err", err)
		}
		send(ctx, l.s.asks, func(*loop) { d.writing = false })
	})
}

// Silences gives the silences that go on now of the sessions that in takes.
func (s *Scheduler) Silences(ctx context.Context, in func(schemas.SessionRecord) bool) ([]schemas.Silence, error) {
	var out []schemas.Silence
	now := time.Now()
	err := s.each(ctx, func(l *loop, t *tracked) {
		v := l.view(t)
		if !in(v.Record) {
			return
		}
		if was := v.QuietSince(l.policy(&v)); was.Before(now) {
			out = append(out, silence(&v, was, v.Last().At, now, ""))
		}
	})
	return out, err
}

// take has a session hear a message, and notes what silence that ended.
func (l *loop) take(v *session.View, m *session.Message, p session.Policy) {
	if l.diary == nil || v.Record.UID == "" {
		v.Hear(*m, p)
		return
	}
	was, used := v.QuietSince(p), v.Last().At
	v.Hear(*m, p)
	if l.deciding { // else it was stored before, and its silence is long over
		l.diary.heard(was, used, v, m, p)
	}
	if l.hearing || m.Source.Kind.Lease() && ends(m).After(time.Now()) { // or lives on
		l.diary.uses.heard(v.Record.UID, m)
	}
}
