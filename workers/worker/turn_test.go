package worker_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/turns"
)

// threeSessions gives a host on which sessions one and two run and three is suspended, with
// limits on its operations, and what makes the bench speak of one of them.
func threeSessions(t *testing.T, l turns.Limits) (*bench, func(session string) *bench) {
	t.Helper()
	b := newBench(t)
	o := b.options()
	o.Operations = l
	b.workWith(o)
	of := func(session string) *bench {
		b.name.Session = schemas.SessionID(session)
		return b
	}
	for _, name := range []string{"one", "two", "three"} {
		of(name).asked("count")
		b.until("running", running)
	}
	b.suspend(false)
	b.until("suspended", suspended)
	return b, of
}

// queued gives a channel that is sent to when an operation of the session says that it waits.
func (b *bench) queued(session string) <-chan struct{} {
	b.t.Helper()
	name, waits := b.name, make(chan struct{}, 1)
	name.Session = schemas.SessionID(session)
	sub, err := b.nc.Subscribe(schemas.SubjectProgress+"."+name.Key(), func(m *nats.Msg) {
		var p schemas.Progress
		if json.Unmarshal(m.Data, &p) == nil && p.Stage == "queue" {
			select {
			case waits <- struct{}{}:
			default:
			}
		}
	})
	b.must(err)
	b.t.Cleanup(func() { _ = sub.Unsubscribe() })
	b.must(b.nc.Flush())
	return waits
}

// Captures wait for each other, and leave a place to a wake. One that waits is undone by
// activity without having touched its session.
func TestCapturesLeaveAPlaceToAWake(t *testing.T) {
	t.Parallel()
	b, of := threeSessions(t, turns.Limits{Count: 2})
	entered, release := b.pause("Capture")
	of("one").suspend(true)
	b.wait(entered)
	waits := b.queued("two")
	of("two").suspend(true)
	b.wait(waits)
	of("three").resume()
	b.until("running", running)

	of("two").say(schemas.KindInput, "")
	b.until("running", running)
	if log := b.log(); log != "run started suspend suspend_aborted" {
		t.Errorf("what waited went through %s", log)
	}
	close(release)
	of("one").until("suspended", suspended)
}

// With one place a wake goes before a capture that came before it.
func TestWakeGoesBeforeCapture(t *testing.T) {
	t.Parallel()
	b, of := threeSessions(t, turns.Limits{Count: 1})
	entered, release := b.pause("Capture")
	of("one").suspend(true)
	b.wait(entered)
	waits := b.queued("two")
	of("two").suspend(false)
	b.wait(waits)
	waits = b.queued("three")
	of("three").resume()
	b.wait(waits)
	calls := b.fake.Calls()
	close(release)
	of("two").until("suspended", suspended)
	of("three").until("running", running)
	for call := range calls {
		if call.Method == "Restore" {
			return
		}
		if call.Method == "Capture" {
			t.Fatal("the capture went before the wake")
		}
	}
}

// A host says where the operations stand that wait for others of it, and of no other session.
func TestPlaceInTheQueue(t *testing.T) {
	t.Parallel()
	b, of := threeSessions(t, turns.Limits{Count: 1})
	entered, release := b.pause("Capture")
	uids := map[string]schemas.UID{"one": of("one").suspend(true).UID}
	b.wait(entered)
	waits := b.queued("two")
	uids["two"] = of("two").suspend(true).UID
	b.wait(waits)
	waits = b.queued("three")
	uids["three"] = of("three").resume().UID
	b.wait(waits)
	for _, question := range []string{"", `["` + string(uids["one"]) + `","` + string(uids["two"]) + `","` + string(uids["three"]) + `"]`} {
		msg, err := b.nc.RequestWithContext(b.ctx, schemas.SubjectHost+".h.observe", []byte(question))
		b.must(err)
		var got map[schemas.UID]schemas.Observed
		b.must(json.Unmarshal(msg.Data, &got))
		if q := got[uids["one"]].Queue; q != nil {
			t.Errorf("to %q: what goes on has the place %v", question, q)
		}
		for session, want := range map[string]schemas.QueuePlace{
			"two": {Place: 2, Of: 2, Limit: "count=1"}, "three": {Place: 1, Of: 2, Limit: "count=1"},
		} {
			if q := got[uids[session]].Queue; q == nil || *q != want {
				t.Errorf("to %q: session %s has the place %v, want %v", question, session, q, want)
			}
		}
	}
	msg, err := b.nc.RequestWithContext(b.ctx, schemas.SubjectHost+".h.observe", []byte(`["`+string(uids["one"])+`"]`))
	b.must(err)
	if strings.Contains(string(msg.Data), "queue") {
		t.Errorf("of the one that goes on it says %s", msg.Data)
	}
	close(release)
	of("two").until("suspended", suspended)
	of("three").until("running", running)
}

// A session larger than the budget is captured and resumed all the same.
func TestLargerThanTheBudget(t *testing.T) {
	t.Parallel()
	_, of := threeSessions(t, turns.Limits{Count: 4, Bytes: 1})
	of("three").resume()
	of("three").until("running", running)
}
