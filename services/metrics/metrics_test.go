package metrics_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/metrics"
)

// want looks for lines among what Prometheus would read.
func want(t *testing.T, m *metrics.Meter, lines ...string) {
	t.Helper()
	all := exposed(t, m)
	for _, line := range lines {
		if !slices.Contains(all, line) {
			t.Errorf("no line %q", line)
		}
	}
}

// exposed gives the lines of ours that Prometheus would read.
func exposed(t *testing.T, m *metrics.Meter) (lines []string) {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, x := range f.GetMetric() {
			var labels []string
			for _, l := range x.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			value := x.GetCounter().GetValue() + x.GetGauge().GetValue() + float64(x.GetHistogram().GetSampleCount())
			lines = append(lines, fmt.Sprintf("%s{%s} %g", f.GetName(), strings.Join(labels, ","), value))
		}
	}
	return lines
}

var at = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func record(s schemas.State, change func(*schemas.SessionRecord)) statekv.Versioned {
	v := statekv.Versioned{SessionRecord: schemas.SessionRecord{Tenant: "acme", Session: "web-42", UID: "u", State: s, Since: at}}
	if change != nil {
		change(&v.SessionRecord)
	}
	return v
}

// used is a meter that has counted some of all.
func used() *metrics.Meter {
	m := metrics.New("1.2.3")
	m.Swapped(statekv.Swapped{Type: schemas.TSuspended, Took: time.Millisecond, After: record(schemas.Suspended, func(r *schemas.SessionRecord) {
		r.Transition.Set.Size = &schemas.Sizes{Logical: 1000, New: 100, Stored: 10}
		r.Transition.Stages = []schemas.Stage{{Name: "frozen", MS: 40}, {Name: "durable", MS: 90}, {Name: "capture", MS: 30}, {Name: "../../etc", MS: 1}}
	})})
	m.Swapped(statekv.Swapped{Type: schemas.TResumed, Before: record(schemas.Resuming, nil), After: record(schemas.Running, func(r *schemas.SessionRecord) {
		r.Since, r.Boot = at.Add(-time.Hour), "resume" // another machine's clock
		r.Transition.Stages = []schemas.Stage{{Name: "restore", MS: 70}, {Name: "fetch", MS: 5}}
	})})
	failing := &schemas.Failure{Op: schemas.OpSuspend, Kind: "refused", Count: 2}
	open := &schemas.Failure{Op: schemas.OpSuspend, Kind: "refused", Count: 3, Open: true}
	for _, f := range []struct{ before, after *schemas.Failure }{{nil, failing}, {failing, open}, {open, open}} {
		m.Swapped(statekv.Swapped{
			Type:   schemas.TSuspendFailed,
			Before: record(schemas.Suspending, func(r *schemas.SessionRecord) { r.Failure = f.before }),
			After: record(schemas.Running, func(r *schemas.SessionRecord) {
				r.Failure, r.Transition.Set.Failure = f.after, f.after
			}),
		})
	}
	for _, err := range []error{statekv.ErrConflict, statekv.ErrUnknown, session.ErrIllegal, errors.New("no route")} {
		m.Swapped(statekv.Swapped{Type: schemas.TSuspend, Err: fmt.Errorf("suspend: %w", err)})
	}
	m.Heard(stream.Heard{CaughtUp: true})
	m.Heard(stream.Heard{Gap: true})
	m.Heard(stream.Heard{Bad: errors.New("no activity")})
	var h stream.Heard
	h.Message.Source.Kind = schemas.KindInput
	m.Heard(h)
	m.Heard(h)
	m.Pruned(schemas.StorePrune{Snapshots: make([]schemas.PrunedSnapshot, 3), Deleted: 7, DeletedBytes: 4096, Marked: 2}, nil)
	m.Pruned(schemas.StorePrune{DryRun: true, Deleted: 1000}, nil)
	m.Pruned(schemas.StorePrune{}, errors.New("the store is away"))
	m.Intake(func() schemas.Intake {
		return schemas.Intake{BadSubject: 4, BadPayload: 2, CloudEvents: 1, Gaps: 1, Strangers: 6}
	})
	m.Triggered("run_start", "done")
	m.Sessions(func() map[schemas.State]int { return map[schemas.State]int{schemas.Running: 2, schemas.Deleted: 9} })
	m.HostSessions(func() map[schemas.State]int { return nil })
	m.Gauge("nats_connected", "Whether this process is connected to NATS.", func() float64 { return 1 })
	m.GaugeBy("scheduler_sessions", "Sessions.", "what", func() map[string]float64 { return map[string]float64{"waiting": 3} })
	m.Count("nats_reconnects_total", "Times that the connection was lost.", func() uint64 { return 5 })
	m.CountBy("lease_renewals_total", "Renewals.", "outcome", func() map[string]uint64 { return map[string]uint64{"stored": 3, "web-42!": 1, "Q": 1} })
	return m
}

func TestCounts(t *testing.T) {
	m := used()
	want(t, m,
		`diapause_transitions_total{type="suspended"} 1`,
		`diapause_transitions_total{type="suspend_failed"} 3`,
		`diapause_record_swaps_total{outcome="done"} 5`,
		`diapause_record_swaps_total{outcome="refused"} 1`,
		`diapause_record_swaps_total{outcome="unknown"} 1`,
		`diapause_record_swaps_total{outcome="illegal"} 1`,
		`diapause_record_swaps_total{outcome="failed"} 1`,
		`diapause_record_swap_duration_seconds{} 9`,
		`diapause_snapshot_logical_bytes_total{op="suspend"} 1000`,
		`diapause_snapshot_new_bytes_total{op="suspend"} 100`,
		`diapause_snapshot_stored_bytes_total{op="suspend"} 10`,
		`diapause_session_frozen_seconds{op="suspend"} 1`,
		`diapause_capture_duration_seconds{op="suspend"} 1`,
		`diapause_stage_duration_seconds{op="suspend",stage="capture"} 1`,
		`diapause_stage_duration_seconds{op="suspend",stage="other"} 1`,
		`diapause_stage_duration_seconds{op="resume",stage="fetch"} 1`,
		`diapause_resume_duration_seconds{boot="resume"} 1`,
		`diapause_resume_wait_seconds{} 1`,
		`diapause_failures_total{kind="refused",op="suspend"} 3`,
		`diapause_failures_total{kind="broken",op="resume"} 0`,
		`diapause_breakers_opened_total{} 1`,
		`diapause_activity_messages_total{kind="input"} 2`,
		`diapause_activity_messages_total{kind="agent"} 0`,
		`diapause_activity_rejected_total{reason="subject"} 4`,
		`diapause_activity_rejected_total{reason="payload"} 2`,
		`diapause_activity_rejected_total{reason="kind"} 0`,
		`diapause_activity_strangers_total{} 6`,
		`diapause_activity_gaps_total{} 1`,
		`diapause_housekeeping_runs_total{outcome="done"} 1`,
		`diapause_housekeeping_runs_total{outcome="failed"} 1`,
		`diapause_housekeeping_objects_deleted_total{} 7`,
		`diapause_housekeeping_deleted_bytes_total{} 4096`,
		`diapause_checkpoint_triggers_total{outcome="done",trigger="run_start"} 1`,
		`diapause_sessions{state="running"} 2`,
		`diapause_sessions{state="suspended"} 0`,
		`diapause_host_sessions{state="running"} 0`,
		`diapause_nats_reconnects_total{} 5`,
		`diapause_scheduler_sessions{what="waiting"} 3`,
		`diapause_lease_renewals_total{outcome="stored"} 3`,
		`diapause_lease_renewals_total{outcome="other"} 2`,
	)
	for _, line := range exposed(t, m) {
		for _, secret := range []string{"acme", "web-42", ".."} {
			if strings.Contains(line, secret) {
				t.Errorf("a label tells a session or what isn't ours: %s", line)
			}
		}
	}
}

// The names and help texts follow Prometheus's conventions.
func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(used().Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	// The linter is asked for real: a bad name is found.
	found, err := promlint.New(strings.NewReader("# TYPE bad_counter counter\nbad_counter 1\n")).Lint()
	if err != nil || len(found) == 0 {
		t.Fatalf("the linter finds nothing: %v", err)
	}
}

// Counting a message of activity costs nanoseconds: tens of thousands come a second.
func BenchmarkHeard(b *testing.B) {
	m := metrics.New("1")
	var h stream.Heard
	h.Message.Source.Kind = schemas.KindInput
	b.ReportAllocs()
	for b.Loop() {
		m.Heard(h)
	}
}

func BenchmarkSwapped(b *testing.B) {
	m := metrics.New("1")
	s := statekv.Swapped{Type: schemas.TSuspended, Took: time.Millisecond, After: record(schemas.Suspended, func(r *schemas.SessionRecord) {
		r.Transition.Set.Size = &schemas.Sizes{Logical: 1000, New: 100, Stored: 10}
		r.Transition.Stages = []schemas.Stage{{Name: "frozen", MS: 40}, {Name: "durable", MS: 90}, {Name: "capture", MS: 30}}
	})}
	b.ReportAllocs()
	for b.Loop() {
		m.Swapped(s)
	}
}
