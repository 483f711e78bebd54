package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/diapause/diapause/schemas"
)

// janitorCounts are what keeping house came to.
type janitorCounts struct {
	runs                       *prometheus.CounterVec
	snapshots, objects, freed  prometheus.Counter
	expired, problems, waiting prometheus.Gauge
}

func newJanitorCounts(m *Meter) janitorCounts {
	one := func(name, help string) prometheus.Counter { return m.counter(name, help).WithLabelValues() }
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Name: name, Help: help})
		m.registry.MustRegister(g)
		return g
	}
	return janitorCounts{
		runs:      m.counter("housekeeping_runs_total", "Times that house was kept in the store, by outcome: done, failed.", "outcome"),
		snapshots: one("housekeeping_snapshots_deleted_total", "Snapshots that the retention policy didn't keep."),
		objects:   one("housekeeping_objects_deleted_total", "Objects of the store that nothing needed."),
		freed:     one("housekeeping_deleted_bytes_total", "Bytes that these objects had taken."),
		expired:   gauge("housekeeping_expired_sessions", "Sessions that the last run removed, having been suspended for too long."),
		problems:  gauge("housekeeping_problems", "What the last run could not look at or delete."),
		waiting:   gauge("housekeeping_marked_objects", "Objects that the last run marked, to be deleted later."),
	}
}

// Pruned counts one run of the janitor. It is its hook.
func (m *Meter) Pruned(out schemas.StorePrune, err error) {
	c := m.janitor
	if out.DryRun {
		return
	}
	outcome := "done"
	if err != nil {
		outcome = "failed"
	}
	c.runs.WithLabelValues(outcome).Inc()
	c.snapshots.Add(float64(len(out.Snapshots)))
	c.objects.Add(float64(out.Deleted))
	c.freed.Add(float64(max(out.DeletedBytes, 0)))
	c.expired.Set(float64(len(out.Expired)))
	c.problems.Set(float64(len(out.Problems)))
	c.waiting.Set(float64(out.Marked))
}
