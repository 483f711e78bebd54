package metrics

import "github.com/prometheus/client_golang/prometheus"

// triggerCounts are what became of the checkpoints that agents ask for by what they do.
type triggerCounts struct{ outcomes *prometheus.CounterVec }

func newTriggerCounts(m *Meter) triggerCounts {
	return triggerCounts{m.counter("checkpoint_triggers_total",
		"Triggers of checkpoints, and the interval of a policy (every), by what became of them: done, failed, skipped (a newer one came first), dropped (nothing to capture), off (the policy doesn't want it).", "trigger", "outcome")}
}

// Triggered counts what became of one trigger. It is the hook of who acts on them.
func (m *Meter) Triggered(trigger, outcome string) {
	m.triggers.outcomes.WithLabelValues(word(trigger), word(outcome)).Inc()
}
