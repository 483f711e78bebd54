package metrics

import (
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// space is in front of every name.
const space = "diapause"

// Meter is what one process counts.
type Meter struct {
	registry *prometheus.Registry
	swaps    swapCounts
	store    storeCounts
	activity activityCounts
	triggers triggerCounts
	janitor  janitorCounts
}

// New makes a meter that has counted nothing.
func New(version string) *Meter {
	m := &Meter{registry: prometheus.NewRegistry()}
	m.swaps = newSwapCounts(m)
	m.store = newStoreCounts(m)
	m.activity = newActivityCounts(m)
	m.triggers = newTriggerCounts(m)
	m.janitor = newJanitorCounts(m)
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: space, Name: "build_info", Help: "The program that runs: always 1.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	m.registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// counter makes a registered counter with one label for each name.
func (m *Meter) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space, Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

// seconds are the buckets of what takes from a millisecond to minutes.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// histogram makes a registered histogram of seconds.
func (m *Meter) histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: space, Name: name, Help: help, Buckets: seconds}, labels)
	m.registry.MustRegister(h)
	return h
}

// word makes a label's value of a text that isn't ours: short, and of few different
// characters.
func word(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return -1
	}, text)
	if clean == "" || len(clean) > 32 || clean != text {
		return "other"
	}
	return clean
}
