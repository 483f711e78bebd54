package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/diapause/diapause/schemas"
)

// janitorCounts are what keeping house came to.
type janitorCounts struct {
	runs                       *prometheus.CounterVec
	snapshots, objects, freed  prometheus.Counter
	expired, problems, waiting prometheus.Gauge

	moved                                           prometheus.Counter
	segments, segmentBytes, revisions, oldest, last prometheus.Gauge
}

func newJanitorCounts(m *Meter) janitorCounts {
	one := func(name, help string) prometheus.Counter { return m.counter(name, help).WithLabelValues() }
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Name: name, Help: help})
		m.registry.MustRegister(g)
		return g
	}
	return janitorCounts{
		runs:         m.counter("housekeeping_runs_total", "Times that house was kept in the store, by outcome: done, failed.", "outcome"),
		snapshots:    one("housekeeping_snapshots_deleted_total", "Snapshots that the retention policy didn't keep."),
		objects:      one("housekeeping_objects_deleted_total", "Objects of the store that nothing needed."),
		freed:        one("housekeeping_deleted_bytes_total", "Bytes that these objects had taken."),
		expired:      gauge("housekeeping_expired_sessions", "Sessions that the last run removed, having been suspended for too long."),
		problems:     gauge("housekeeping_problems", "What the last run could not look at or delete."),
		moved:        one("log_moved_revisions_total", "Revisions of sessions that were moved from NATS to log segments in the store."),
		segments:     gauge("log_segments", "Segments of the log in the store."),
		segmentBytes: gauge("log_segment_bytes", "Bytes that these take."),
		revisions:    gauge("log_revisions", "Revisions of sessions that NATS has."),
		oldest:       gauge("log_oldest_revision_timestamp_seconds", "When the oldest revision was stored that NATS has."),
		last:         gauge("log_last_segment_timestamp_seconds", "When the last segment was written, by the clock of the log; 0 for never."),
		waiting:      gauge("housekeeping_marked_objects", "Objects that the last run marked, to be deleted later."),
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
	if l := out.Log; l != nil {
		c.moved.Add(float64(l.Moved))
		c.segments.Set(float64(l.AllSegments))
		c.segmentBytes.Set(float64(l.AllBytes))
		c.revisions.Set(float64(l.Revisions))
		c.oldest.Set(since(l.OldestInNATS))
		c.last.Set(since(l.At))
	}
}

// since gives a time in seconds, 0 for none.
func since(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
