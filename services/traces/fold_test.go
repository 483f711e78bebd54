package traces

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// rev is a revision some time after noon; op is what is under way after it, "" if nothing is.
func rev(version uint64, after time.Duration, t schemas.TransitionType, of, op string, stages ...schemas.Stage) statekv.Versioned {
	r := schemas.SessionRecord{
		Tenant: "acme", Session: "s", UID: "u", Host: "h", Epoch: 3, Version: version,
		Transition: schemas.Transition{Type: t, Op: of, At: noon.Add(after), Actor: "client", Stages: stages, Reason: "secret words"},
	}
	if op != "" {
		r.Op = &schemas.Op{ID: op, Kind: schemas.OpSuspend}
	}
	return statekv.Versioned{SessionRecord: r}
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// An operation's spans come when it has ended: the whole first, then its stages end to end, up to the revision
// that reports them.
func TestSuspend(t *testing.T) {
	var f Fold
	if got := f.Add(rev(1, 0, schemas.TIdleRule, "", "")); got != nil {
		t.Errorf("what is no operation gives %v", got)
	}
	if got := f.Add(rev(2, time.Second, schemas.TSuspend, "o", "o")); got != nil {
		t.Errorf("the begin gives %v", got)
	}
	stages := []schemas.Stage{{Name: "freeze", MS: 100, Part: true}, {Name: "dump", MS: 300, Bytes: 7, Part: true}, {Name: "compress", MS: 250}}
	if got := f.Add(rev(3, 3*time.Second, schemas.TSuspended, "o", "o", stages...)); got != nil {
		t.Errorf("the middle gives %v", got)
	}
	got := ended(t, &f, rev(4, 4*time.Second, schemas.TReaped, "o", ""))
	if len(got) != 3 {
		t.Fatalf("it gives %d spans: %+v", len(got), got)
	}
	root, freeze, dump := got[0], got[1], got[2]
	if root.Name != schemas.OpSuspend || !root.Start.Equal(noon.Add(time.Second)) || !root.End.Equal(noon.Add(4*time.Second)) || len(root.Events) != 3 || root.Failed != "" || root.Parent.IsValid() {
		t.Errorf("the whole is %+v", root)
	}
	if freeze.Name != "suspend.freeze" || !freeze.Start.Equal(noon.Add(2600*time.Millisecond)) || !freeze.End.Equal(dump.Start) || !dump.End.Equal(noon.Add(3*time.Second)) {
		t.Errorf("the stages are %+v and %+v", freeze, dump)
	}
	if freeze.Trace != root.Trace || freeze.ID == dump.ID || freeze.ID == root.ID || !root.Trace.IsValid() {
		t.Errorf("the IDs are %v, %v, %v", root.ID, freeze.ID, dump.ID)
	}
	all := map[string]any{}
	for _, a := range root.Attributes {
		if _, twice := all[string(a.Key)]; twice {
			t.Errorf("%s is there twice", a.Key)
		}
		all[string(a.Key)] = a.Value.AsInterface()
	}
	for key, want := range map[string]any{"diapause.session": "acme/s", "diapause.op": "o", "diapause.host": "h", "diapause.epoch": int64(3), "diapause.stage.compress.ms": int64(250)} {
		if all[key] != want {
			t.Errorf("%s is %v, want %v", key, all[key], want)
		}
	}
	var again Fold
	again.Add(rev(2, time.Second, schemas.TSuspend, "o", "o"))
	if other := ended(t, &again, rev(3, 2*time.Second, schemas.TSuspendFailed, "o", ""))[0]; other.Trace != root.Trace || other.ID != root.ID || other.Failed != "suspend_failed" {
		t.Errorf("another that reads the log has %+v", other)
	}
}

// A caller's trace goes on; what is none is as if there were none.
func TestParent(t *testing.T) {
	for text, valid := range map[string]bool{parent: true, "": false, "00-1-2-3": false, "00-00000000000000000000000000000000-b7ad6b7169203331-01": false} {
		var f Fold
		v := rev(1, 0, schemas.TSuspend, "o", "o")
		v.Op.Trace = text
		f.Add(v)
		root := ended(t, &f, rev(2, time.Second, schemas.TSuspendAborted, "o", ""))[0]
		want, _ := trace.TraceIDFromHex("0af7651916cd43dd8448eb211c80319c")
		if root.Parent.IsValid() != valid || (root.Trace == want) != valid || !root.Trace.IsValid() {
			t.Errorf("%q: trace %v, parent %v", text, root.Trace, root.Parent)
		}
	}
}

// What changes beside an operation doesn't end it; what ends its session does.
func TestBeside(t *testing.T) {
	var f Fold
	f.Add(rev(1, 0, schemas.TSuspend, "o", "o"))
	if got := f.Add(rev(2, time.Second, schemas.TIdleRule, "", "o")); got != nil {
		t.Errorf("a change beside it gives %+v", got)
	}
	if got := ended(t, &f, rev(3, 2*time.Second, schemas.TLost, "", "")); len(got) != 1 || got[0].Failed != "lost" || len(got[0].Events) != 3 || len(f.open) != 0 {
		t.Errorf("the end gives %+v", got)
	}
}

// An operation that another takes the place of ends then.
func TestReplaced(t *testing.T) {
	var f Fold
	f.Add(rev(1, 0, schemas.TSuspend, "one", "one"))
	lost := ended(t, &f, rev(2, time.Second, schemas.TRemove, "two", "two"))
	if len(lost) != 1 || lost[0].Failed != "remove" || !lost[0].Start.Equal(noon) || !lost[0].End.Equal(noon.Add(time.Second)) {
		t.Errorf("what was replaced is %+v", lost)
	}
	if got := ended(t, &f, rev(3, 2*time.Second, schemas.TRemoved, "two", "")); len(got) != 1 || !got[0].Start.Equal(noon.Add(time.Second)) || got[0].Failed != "" || len(f.open) != 0 {
		t.Errorf("it gives %+v, and keeps %d", got, len(f.open))
	}
}

// A revision that ends an operation may begin the next one.
func TestFollowed(t *testing.T) {
	var f Fold
	f.Add(rev(1, 0, schemas.TResume, "one", "one"))
	if first := ended(t, &f, rev(2, time.Second, schemas.TFellBack, "one", "two")); first[0].Failed != "fell_back" {
		t.Errorf("the first is %+v", first)
	}
	if second := ended(t, &f, rev(3, 3*time.Second, schemas.TResumed, "two", "")); !second[0].Start.Equal(noon.Add(time.Second)) || len(second[0].Events) != 2 || second[0].Failed != "" {
		t.Errorf("the second is %+v", second)
	}
}

// ended gives the spans of the one operation that a revision ends.
func ended(t *testing.T, f *Fold, v statekv.Versioned) []Span {
	t.Helper()
	ops := f.Add(v)
	if len(ops) != 1 {
		t.Fatalf("%s ends %d operations: %+v", v.Transition.Type, len(ops), ops)
	}
	return ops[0]
}
