package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// activityCounts are what was heard. The counters of the kinds are looked up once:
// tens of thousands of messages may come a second.
type activityCounts struct {
	kinds map[schemas.Kind]prometheus.Counter
	other prometheus.Counter
}

func newActivityCounts(m *Meter) activityCounts {
	heard := m.counter("activity_messages_total", "Messages of activity that were heard, by kind.", "kind")
	c := activityCounts{
		kinds: map[schemas.Kind]prometheus.Counter{},
		other: heard.WithLabelValues("other"),
	}
	for _, k := range schemas.Kinds() {
		c.kinds[k] = heard.WithLabelValues(string(k))
	}
	return c
}

// Heard counts what a scheduler heard by its kind. It is its hook, and called for every
// message. What isn't activity the scheduler counts itself: see Intake.
func (m *Meter) Heard(h stream.Heard) {
	if h.CaughtUp || h.Gap || !h.Through.IsZero() || h.Bad != nil {
		return
	}
	c, ok := m.activity.kinds[h.Message.Source.Kind]
	if !ok {
		c = m.activity.other
	}
	c.Inc()
}

// Intake shows what a scheduler counts of what it hears.
func (m *Meter) Intake(read func() schemas.Intake) {
	m.CountBy("activity_rejected_total", "Messages on activity subjects that are no activity, by why: subject, kind, payload, size.", "reason", func() map[string]uint64 {
		i := read()
		return map[string]uint64{schemas.BadSubject: i.BadSubject, schemas.BadKind: i.UnknownKind, schemas.BadPayload: i.BadPayload, schemas.BadSize: i.TooBig}
	})
	m.Count("activity_cloudevents_total", "Messages of activity that were CloudEvents.", func() uint64 { return read().CloudEvents })
	m.Count("activity_skewed_total", "CloudEvents whose publisher's clock is minutes off; it is never used.", func() uint64 { return read().Skewed })
	m.Count("activity_gaps_total", "Times that activity could not be heard for a while: every grace started again.", func() uint64 { return read().Gaps })
	m.Count("activity_strangers_total", "Sessions without a record that were heard of.", func() uint64 { return read().Strangers })
}
