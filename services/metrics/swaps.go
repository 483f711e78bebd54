package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// swapCounts are what the swaps of this process tell.
type swapCounts struct {
	transitions, outcomes, failures, opened *prometheus.CounterVec
	logical, fresh, stored                  *prometheus.CounterVec
	swap, capture, frozen, resume, wait     *prometheus.HistogramVec
	stage                                   *prometheus.HistogramVec
}

func newSwapCounts(m *Meter) swapCounts {
	c := swapCounts{
		transitions: m.counter("transitions_total", "Transitions of sessions that this process made, by type.", "type"),
		outcomes:    m.counter("record_swaps_total", "Compare-and-swaps on session records by outcome: done, refused (another writer was quicker), illegal, unknown, failed.", "outcome"),
		failures:    m.counter("failures_total", "Operations that failed, by operation and kind of failure.", "op", "kind"),
		opened:      m.counter("breakers_opened_total", "Sessions whose breaker opened: they aren't suspended for idleness any more."),
		logical:     m.counter("snapshot_logical_bytes_total", "Bytes captured in snapshots.", "op"),
		fresh:       m.counter("snapshot_new_bytes_total", "Bytes of them that no earlier snapshot had; the rest was deduplicated.", "op"),
		stored:      m.counter("snapshot_stored_bytes_total", "Bytes that these took in the store, compressed and encrypted.", "op"),
		swap:        m.histogram("record_swap_duration_seconds", "Time that a compare-and-swap took."),
		capture:     m.histogram("capture_duration_seconds", "Time from the beginning of a suspend or checkpoint until its image was durable.", "op"),
		frozen:      m.histogram("session_frozen_seconds", "Time that a session stood still for a suspend or checkpoint.", "op"),
		resume:      m.histogram("resume_duration_seconds", "Time that the host took to restore a session.", "boot"),
		wait:        m.histogram("resume_wait_seconds", "Time from the decision to resume a session until it ran."),
		stage:       m.histogram("stage_duration_seconds", "Time of one step of a suspend, checkpoint or resume; steps overlap.", "op", "stage"),
	}
	c.begin()
	return c
}

// begin makes the counters that are looked at for what has never happened yet: a rate of
// nothing is not 0.
func (c swapCounts) begin() {
	c.opened.WithLabelValues()
	for _, outcome := range []string{"done", "refused", "illegal", "unknown", "failed"} {
		c.outcomes.WithLabelValues(outcome)
	}
	for _, op := range []string{schemas.OpStart, schemas.OpSuspend, schemas.OpCheckpoint, schemas.OpResume} {
		for _, kind := range []string{"refused", "transient", "broken"} {
			c.failures.WithLabelValues(op, kind)
		}
	}
	for _, op := range []string{schemas.OpSuspend, schemas.OpCheckpoint} {
		c.logical.WithLabelValues(op)
		c.fresh.WithLabelValues(op)
		c.stored.WithLabelValues(op)
	}
}

// Swapped counts one swap. It is the hook of the records' store.
func (m *Meter) Swapped(s statekv.Swapped) {
	c := m.swaps
	c.outcomes.WithLabelValues(outcomeOf(s.Err)).Inc()
	c.swap.WithLabelValues().Observe(s.Took.Seconds())
	if s.Err != nil {
		return
	}
	c.transitions.WithLabelValues(string(s.Type)).Inc()
	switch s.Type {
	case schemas.TSuspended:
		c.captured(schemas.OpSuspend, s.After.SessionRecord)
	case schemas.TCheckpointed:
		c.captured(schemas.OpCheckpoint, s.After.SessionRecord)
	case schemas.TResumed:
		c.resumed(s.Before.SessionRecord, s.After.SessionRecord)
	}
	c.failed(s.Before.Failure, s.After.SessionRecord)
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, statekv.ErrConflict):
		return "refused"
	case errors.Is(err, session.ErrIllegal):
		return "illegal"
	case errors.Is(err, statekv.ErrUnknown):
		return "unknown"
	}
	return "failed"
}

func (c swapCounts) captured(op string, r schemas.SessionRecord) {
	if size := r.Transition.Set.Size; size != nil {
		c.logical.WithLabelValues(op).Add(float64(max(size.Logical, 0)))
		c.fresh.WithLabelValues(op).Add(float64(max(size.New, 0)))
		c.stored.WithLabelValues(op).Add(float64(max(size.Stored, 0)))
	}
	for _, s := range r.Transition.Stages {
		took := (time.Duration(s.MS) * time.Millisecond).Seconds()
		switch s.Name {
		case "frozen":
			c.frozen.WithLabelValues(op).Observe(took)
		case "durable":
			c.capture.WithLabelValues(op).Observe(took)
		default:
			c.stage.WithLabelValues(op, word(s.Name)).Observe(took)
		}
	}
}

func (c swapCounts) resumed(before, after schemas.SessionRecord) {
	// Two machines' clocks may be compared here: a wait below zero is none.
	c.wait.WithLabelValues().Observe(max(after.Since.Sub(before.Since), 0).Seconds())
	for _, s := range after.Transition.Stages {
		took := (time.Duration(s.MS) * time.Millisecond).Seconds()
		if s.Name == "restore" {
			c.resume.WithLabelValues(word(string(after.Boot))).Observe(took)
			continue
		}
		c.stage.WithLabelValues(schemas.OpResume, word(s.Name)).Observe(took)
	}
}

// failed counts what a transition says went wrong.
func (c swapCounts) failed(before *schemas.Failure, after schemas.SessionRecord) {
	f := after.Transition.Set.Failure
	if f == nil {
		return
	}
	kind := f.Kind
	if kind == "" {
		kind = "other"
	}
	c.failures.WithLabelValues(word(f.Op), word(kind)).Inc()
	if f.Open && (before == nil || !before.Open) {
		c.opened.WithLabelValues().Inc()
	}
}
