package drain

import (
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func TestPlan(t *testing.T) {
	type r = schemas.SessionRecord
	running := r{State: schemas.Running}
	idle, used := scheduler.Use{Rev: statekv.RevisionAt(7), Seq: 3}, scheduler.Use{Rev: statekv.RevisionAt(7), Seq: 3, What: "busy.cpu"}
	never := idle
	never.Never = true
	older := idle
	older.Rev = statekv.RevisionAt(6)
	move := &schemas.Op{Kind: schemas.OpSuspend, Move: &schemas.Move{From: "a", To: "b"}}
	reap := &schemas.Op{Kind: schemas.OpReap}
	failed := func(op string, ago time.Duration) *schemas.Failure {
		return &schemas.Failure{Op: op, Text: "no space", At: now.Add(-ago)}
	}
	for name, c := range map[string]struct {
		rec   r
		use   *scheduler.Use
		force bool
		gone  bool
		none  bool // no other host can take it
		want  Act
		why   string
		seq   uint64
	}{
		"not in use":                          {rec: running, use: &idle, want: Suspend, why: "isn't in use", seq: 3},
		"in use":                              {rec: running, use: &used, want: Wait, why: "in use: busy.cpu"},
		"its use isn't heard of":              {rec: running, want: Wait, why: "its use isn't known yet"},
		"its use is that of before it woke":   {rec: running, use: &older, want: Wait, why: "its use isn't known yet"},
		"never suspended":                     {rec: running, use: &never, want: Move, why: "never suspended", seq: 3},
		"never suspended, no other host":      {rec: running, use: &never, none: true, want: Wait, why: "no host can take it", seq: 3},
		"forced, in use":                      {rec: running, use: &used, force: true, want: Move, why: "in use"},
		"forced, not known":                   {rec: running, force: true, want: Move},
		"forced, in use, no other host":       {rec: running, use: &used, force: true, none: true, want: Suspend, why: "no host can take it"},
		"forced, not in use":                  {rec: running, use: &idle, force: true, want: Suspend},
		"asleep":                              {rec: r{State: schemas.Suspended}, use: &idle, force: true},
		"ended":                               {rec: r{State: schemas.Exited}, force: true},
		"a checkpoint":                        {rec: r{State: schemas.Running, Op: &schemas.Op{Kind: schemas.OpCheckpoint}}, use: &idle, force: true, want: Wait, why: "checkpoint is under way"},
		"starting":                            {rec: r{State: schemas.Starting, Op: &schemas.Op{Kind: schemas.OpStart}}, force: true, want: Wait, why: "start is under way"},
		"being suspended":                     {rec: r{State: schemas.Suspending, Op: &schemas.Op{Kind: schemas.OpSuspend}}, want: Wait, why: "being suspended"},
		"suspended, its processes are there":  {rec: r{State: schemas.Suspended, Op: reap}, want: Wait, why: "being suspended"},
		"moving off":                          {rec: r{State: schemas.Suspending, Op: move}, want: Wait, why: "it moves to host b"},
		"moving here":                         {rec: r{Host: "c", State: schemas.Suspended, Op: &schemas.Op{Kind: schemas.OpReap, Move: &schemas.Move{From: "c", To: "a"}}}, force: true, want: Wait, why: "on its way here"},
		"its breaker is open":                 {rec: r{State: schemas.Running, Failure: &schemas.Failure{Op: schemas.OpSuspend, Open: true, Text: "no space"}}, use: &idle, want: Wait, why: "breaker is open: no space"},
		"its breaker is open, forced":         {rec: r{State: schemas.Running, Failure: &schemas.Failure{Op: schemas.OpSuspend, Open: true}}, use: &idle, force: true, want: Suspend},
		"its host is gone":                    {rec: running, use: &idle, force: true, gone: true, want: Wait, why: "its host is gone"},
		"on another host":                     {rec: r{Host: "c", State: schemas.Running}, use: &idle, force: true},
		"a suspend failed just now":           {rec: r{State: schemas.Running, Failure: failed(schemas.OpSuspend, time.Second)}, use: &idle, want: Wait, why: "its last suspend failed: no space"},
		"a move failed just now":              {rec: r{State: schemas.Running, Failure: failed(schemas.OpMove, time.Second)}, use: &idle, force: true, want: Wait, why: "its last move failed"},
		"a suspend failed a while ago":        {rec: r{State: schemas.Running, Failure: failed(schemas.OpSuspend, time.Minute)}, use: &idle, want: Suspend, seq: 3},
		"a checkpoint failed just now":        {rec: r{State: schemas.Running, Failure: failed(schemas.OpCheckpoint, time.Second)}, use: &idle, want: Suspend, seq: 3},
		"a suspend failed by a clock to come": {rec: r{State: schemas.Running, Failure: failed(schemas.OpSuspend, -time.Minute)}, use: &idle, want: Suspend, seq: 3},
	} {
		t.Run(name, func(t *testing.T) {
			rec := c.rec
			rec.Tenant, rec.Session = "default", "s"
			if rec.Host == "" {
				rec.Host = "a"
			}
			use := map[schemas.Name]scheduler.Use{}
			if c.use != nil {
				use[rec.Name()] = *c.use
			}
			target := func(statekv.Versioned) (schemas.HostID, string) {
				if c.none {
					return "", "no host can take it"
				}
				return "b", ""
			}
			steps := Plan("a", c.gone, c.force, []statekv.Versioned{{SessionRecord: rec, Rev: statekv.RevisionAt(7)}}, use, target, now)
			if c.want == "" {
				if len(steps) != 0 {
					t.Fatalf("it is to %s: %s", steps[0].Act, steps[0].Why)
				}
				return
			}
			if len(steps) != 1 {
				t.Fatalf("%d steps", len(steps))
			}
			s := steps[0]
			if s.Act != c.want || !strings.Contains(s.Why, c.why) || s.Seq != c.seq || (s.To == "b") != (c.want == Move) {
				t.Errorf("it is to %s to %q by activity %d: %s", s.Act, s.To, s.Seq, s.Why)
			}
		})
	}
}
