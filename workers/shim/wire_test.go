package shim

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/diapause/diapause/workers/driver"
)

// A worker understands what shims of earlier versions say, which outlive an upgrade: these
// are messages as commit f36b4bd sends them.
func TestMessagesOfEarlierShims(t *testing.T) {
	read := func(text string) (m Message) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := read(`{"phase":"done","state":{"uid":"u","name":{"tenant":"default","session":"n"},"epoch":3,"boot":"resume","started":"2026-01-02T03:04:05Z","shim":7,"pid":8,` +
		`"exit":{"code":137,"signal":9,"reason":"out of memory"},"lost":true},"frozen":true,"fenced":true}`)
	if s := m.State; s.UID != "u" || s.Epoch != 3 || s.Boot != "resume" || s.Shim != 7 || s.PID != 8 || s.Exit.Code != 137 || s.Exit.Signal != 9 || !s.Lost || !m.Frozen || !m.Fenced {
		t.Errorf("a state becomes %+v, %+v", s, m)
	}
	m = read(`{"phase":"dumped","dump":{"frozen":"2026-01-02T03:04:05Z","freeze_took":1,"dump_took":2,"warnings":["it will be closed"],` +
		`"lower":[{"path":"bin/sh","via":"/proc/9/exe"}],"way":"stream","why_way":"no room","held":4}}`)
	if d := m.Dump; d.FreezeTook != 1 || d.DumpTook != 2 || len(d.Warnings) != 1 || d.Lower[0].Via != "/proc/9/exe" || d.Way != driver.WayStream || d.Held != 4 {
		t.Errorf("a dump becomes %+v", d)
	}
	var e *driver.Error
	m = read(`{"failure":{"kind":"refused","text":"session n can't be captured","blockers":[{"PID":3,"Program":"sh","What":"fd 7","Why":"w","Fix":"f"}]}}`)
	if err := m.Failure.Err(); !errors.As(err, &e) || e.Kind != driver.Refused || len(e.Blockers) != 1 || e.Blockers[0].PID != 3 {
		t.Errorf("a refusal becomes %v", err)
	}
	m = read(`{"failure":{"kind":"transient","text":"wait: the host's lease has run out","no_lease":true}}`)
	if err := m.Failure.Err(); !errors.Is(err, driver.ErrNoLease) || err.Error() != "wait: the host's lease has run out" {
		t.Errorf("a lease that is over becomes %v", err)
	}
	m = read(`{"failure":{"kind":"transient","text":"a newer owner has acted on this session","stale":true}}`)
	if err := m.Failure.Err(); !errors.Is(err, driver.ErrStale) {
		t.Errorf("an epoch that is too low becomes %v", err)
	}
}

// Earlier shims understand what a worker says.
func TestOrdersToEarlierShims(t *testing.T) {
	for _, c := range []struct {
		what any
		want string
	}{
		{Order{Op: OrderStatus}, `{"op":"status"}`},
		{
			Order{Op: OrderCapture, Epoch: 3, Way: driver.WayAuto, Room: 4, Promised: 5, Failpoints: "f"},
			`{"op":"capture","epoch":3,"way":"auto","room":4,"promised":5,"failpoints":"f"}`,
		},
		{
			Order{Op: OrderThaw, Epoch: 3, Lease: &Lease{Until: 6, Within: time.Second, Guard: true}},
			`{"op":"thaw","epoch":3,"lease":{"until":6,"within":1000000000,"guard":true}}`,
		},
		{Answer{Go: true, Served: []string{"pages-1.img"}}, `{"go":true,"served":["pages-1.img"]}`},
	} {
		if got, err := json.Marshal(c.what); err != nil || string(got) != c.want {
			t.Errorf("%s, %v; want %s", got, err, c.want)
		}
	}
}

// An error keeps its kind, its hint and what it is on its way to the worker.
func TestFailureThereAndBack(t *testing.T) {
	for _, sent := range []error{
		&driver.Error{Kind: driver.Refused, Text: "it can't be", Hint: "do this"},
		&driver.Error{Kind: driver.Refused, Text: "it can't be", Hint: "do this", Err: errors.New("why")},
		&driver.Error{Kind: driver.Refused, Text: "it can't be", Blockers: []driver.Blocker{{PID: 1, Program: "p", What: "w", Why: "y", Fix: "f"}}},
		&driver.Error{Kind: driver.Transient, Text: "later", Err: driver.ErrNoLease},
		&driver.Error{Kind: driver.Transient, Text: "again", Err: ErrPassing},
		driver.ErrStale, errors.New("no kind"),
	} {
		b, err := json.Marshal(failure(sent))
		if err != nil {
			t.Fatal(err)
		}
		var f *Failure
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		got := f.Err()
		_, hint := driver.HintOf(got)
		_, wantHint := driver.HintOf(sent)
		if got.Error() != sent.Error() || driver.KindOf(got) != driver.KindOf(sent) || hint != wantHint {
			t.Errorf("%v becomes %v with the hint %q", sent, got, hint)
		}
		for _, known := range []error{driver.ErrStale, driver.ErrNoLease, ErrPassing} {
			if errors.Is(got, known) != errors.Is(sent, known) {
				t.Errorf("%v becomes %v, which is %v or not", sent, got, known)
			}
		}
	}
}
