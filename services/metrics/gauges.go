package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/diapause/diapause/schemas"
)

// states are all that a session can be in: each has a value, also if it is 0.
var states = []schemas.State{
	schemas.Starting, schemas.Running, schemas.Suspending, schemas.Suspended, schemas.Resuming, schemas.Exited, schemas.Failed,
}

// byState is a gauge with one value for each state, read at each scrape.
type byState struct {
	desc *prometheus.Desc
	read func() map[schemas.State]int
}

func (b byState) Describe(ch chan<- *prometheus.Desc) { ch <- b.desc }

func (b byState) Collect(ch chan<- prometheus.Metric) {
	counts := b.read()
	for _, s := range states {
		ch <- prometheus.MustNewConstMetric(b.desc, prometheus.GaugeValue, float64(counts[s]), string(s))
	}
}

// Sessions shows how many sessions are in each state, in the whole fleet. read is
// called at each scrape, and must be quick.
func (m *Meter) Sessions(read func() map[schemas.State]int) {
	m.registry.MustRegister(byState{prometheus.NewDesc(space+"_sessions", "Sessions of the fleet, by state.", []string{"state"}, nil), read})
}

// HostSessions is the same for the sessions of one host.
func (m *Meter) HostSessions(read func() map[schemas.State]int) {
	m.registry.MustRegister(byState{prometheus.NewDesc(space+"_host_sessions", "Sessions whose record names this host, by state.", []string{"state"}, nil), read})
}

// Gauge shows a value that a part knows itself. read is called at each scrape.
func (m *Meter) Gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: space, Name: name, Help: help}, read))
}

// Count shows a number that only grows, and that a part counts itself.
func (m *Meter) Count(name, help string, read func() uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: space, Name: name, Help: help}, func() float64 { return float64(read()) }))
}

// byWord is a metric with one label whose values a part knows itself.
type byWord[N uint64 | float64] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func() map[string]N
}

func (b byWord[N]) Describe(ch chan<- *prometheus.Desc) { ch <- b.desc }

func (b byWord[N]) Collect(ch chan<- prometheus.Metric) {
	sums := map[string]N{}
	for w, n := range b.read() {
		sums[word(w)] += n
	}
	for w, n := range sums {
		ch <- prometheus.MustNewConstMetric(b.desc, b.kind, float64(n), w)
	}
}

// CountBy is Count by a word, of which there must be few.
func (m *Meter) CountBy(name, help, label string, read func() map[string]uint64) {
	m.registry.MustRegister(byWord[uint64]{prometheus.NewDesc(space+"_"+name, help, []string{label}, nil), prometheus.CounterValue, read})
}

// GaugeBy is Gauge by a word, of which there must be few.
func (m *Meter) GaugeBy(name, help, label string, read func() map[string]float64) {
	m.registry.MustRegister(byWord[float64]{prometheus.NewDesc(space+"_"+name, help, []string{label}, nil), prometheus.GaugeValue, read})
}
