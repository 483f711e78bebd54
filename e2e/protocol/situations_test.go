package protocol_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
)

// grace is that of the sessions of these tests: long enough for a slow machine to
// publish in it.
const grace = 2500 * time.Millisecond

// idle runs a session with a short grace.
func (h *host) idle(name string, g time.Duration) schemas.View {
	h.t.Helper()
	req := runRequest(name, "count")
	req.Run.Idle = &schemas.Idle{Grace: g.Milliseconds()}
	v := h.do("run", req)
	h.count(v.UID)
	return v
}

// say publishes activity and gives its number in the stream.
func (h *host) say(name string, k schemas.Kind, key string, a schemas.Activity) uint64 {
	h.t.Helper()
	n, err := schemas.ParseName(name)
	h.must(err)
	seq, err := stream.Publisher{JS: h.js}.Activity(h.ctx, n, k, key, a)
	h.must(err)
	return seq
}

// types gives the transitions of a session in order, without the claims.
func (h *host) types(name string) []schemas.TransitionType {
	h.t.Helper()
	n, err := schemas.ParseName(name)
	h.must(err)
	all, err := h.records.History(h.ctx, n)
	h.must(err)
	var out []schemas.TransitionType
	for _, v := range all {
		if v.Transition.Type != schemas.TClaimed {
			out = append(out, v.Transition.Type)
		}
	}
	return out
}

// first gives the first transition of a type.
func (h *host) first(name string, t schemas.TransitionType) statekv.Versioned {
	h.t.Helper()
	n, err := schemas.ParseName(name)
	h.must(err)
	all, err := h.records.History(h.ctx, n)
	h.must(err)
	i := slices.IndexFunc(all, func(v statekv.Versioned) bool { return v.Transition.Type == t })
	if i < 0 {
		h.t.Fatalf("session %s has no %s: %v", name, t, h.types(name))
	}
	return all[i]
}

// events gives the texts of the events of a type.
func (h *host) events(kind string) []string {
	h.t.Helper()
	s, err := h.js.Stream(h.ctx, h.names.Events())
	h.must(err)
	var out []string
	for seq := uint64(1); ; seq++ {
		msg, err := s.GetMsg(h.ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return out
		}
		h.must(err)
		if strings.Contains(string(msg.Data), `"type":"`+kind+`"`) {
			out = append(out, string(msg.Data))
		}
	}
}

func stored(h *host, name string) (found bool, err error) {
	err = h.disk.List(h.ctx, name, func(objectstore.Info) error { found = true; return nil })
	return found, err
}

func isState(s schemas.State) func(statekv.Versioned) bool {
	return func(v statekv.Versioned) bool { return v.State == s && v.Op == nil }
}

func madeBy(any ...schemas.TransitionType) func(statekv.Versioned) bool {
	return func(v statekv.Versioned) bool { return slices.Contains(any, v.Transition.Type) }
}

func TestAgentBusyWhenTheLastClientLeaves(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.idle("work", grace)
	h.say("work", schemas.KindPresence, "tab", schemas.Activity{TTL: schemas.Duration(time.Minute)})
	h.say("work", schemas.KindBusy, "agent", schemas.Activity{TTL: schemas.Duration(time.Minute), Reason: "it thinks"})
	h.say("work", schemas.KindPresence, "tab", schemas.Activity{Released: true})
	time.Sleep(2 * grace) // in which it would be suspended if only clients counted
	end := h.say("work", schemas.KindBusy, "agent", schemas.Activity{Released: true})
	h.until("work", "suspended", isState(schemas.Suspended))
	if s := h.first("work", schemas.TSuspend); s.Transition.Evidence.Seq < end {
		t.Errorf("it was suspended on activity up to %d, the agent ended at %d", s.Transition.Evidence.Seq, end)
	}
	h.audited()
}

// Each page leaves before the next one comes, and the last request is not a grace ago.
func TestRefreshOfATabWithinTheGrace(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.idle("work", grace)
	var last uint64
	for _, tab := range []string{"a", "b", "c", "d"} {
		h.say("work", schemas.KindPresence, tab, schemas.Activity{TTL: schemas.Duration(time.Minute)})
		last = h.say("work", schemas.KindHTTP, "", schemas.Activity{})
		time.Sleep(grace / 3)
		h.say("work", schemas.KindPresence, tab, schemas.Activity{Released: true})
	}
	h.until("work", "suspended", isState(schemas.Suspended))
	if s := h.first("work", schemas.TSuspend); s.Transition.Evidence.Seq < last {
		t.Errorf("it was suspended on activity up to %d, between two tabs", s.Transition.Evidence.Seq)
	}
}

func TestRepeatedDisconnectsAndDoubleCloses(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.idle("work", grace)
	h.say("work", schemas.KindPresence, "a", schemas.Activity{TTL: schemas.Duration(time.Minute)})
	h.say("work", schemas.KindPresence, "b", schemas.Activity{TTL: schemas.Duration(time.Minute)})
	for range 3 {
		h.say("work", schemas.KindPresence, "a", schemas.Activity{Released: true})
	}
	time.Sleep(2 * grace) // in which a counter of connections, now below zero, would let it go
	last := h.say("work", schemas.KindPresence, "b", schemas.Activity{Released: true})
	h.until("work", "suspended", isState(schemas.Suspended))
	if s := h.first("work", schemas.TSuspend); s.Transition.Evidence.Seq < last {
		t.Errorf("it was suspended on activity up to %d, with a connection open", s.Transition.Evidence.Seq)
	}
}

// The grace has passed long ago when the connection goes: it isn't started again.
func TestConnectionLostAfterKnownIdleStillSuspends(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.idle("work", grace)
	h.say("work", schemas.KindPresence, "tab", schemas.Activity{TTL: schemas.Duration(time.Minute)})
	time.Sleep(2 * grace)
	h.say("work", schemas.KindPresence, "tab", schemas.Activity{Released: true})
	h.until("work", "suspended", isState(schemas.Suspended))
	if idle := h.first("work", schemas.TSuspend).Transition.Evidence.IdleMS; idle < (2 * grace).Milliseconds() {
		t.Errorf("idle for %d ms: the lost connection started the grace again", idle)
	}
}

func TestHeartbeatKeepsASessionWithoutAConnectionAwake(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.idle("work", grace)
	var last uint64
	for range 6 {
		last = h.say("work", schemas.KindHeartbeat, "", schemas.Activity{})
		time.Sleep(grace / 4)
	}
	h.until("work", "suspended", isState(schemas.Suspended))
	if s := h.first("work", schemas.TSuspend); s.Transition.Evidence.Seq < last {
		t.Errorf("it was suspended on activity up to %d, of %d", s.Transition.Evidence.Seq, last)
	}
	h.say("work", schemas.KindHeartbeat, "", schemas.Activity{}) // wakes nothing
	h.do("ensure", schemas.Request{Name: "work"})
	if r := h.first("work", schemas.TResume); strings.Contains(r.Transition.Reason, "heartbeat") {
		t.Error("a heartbeat woke it")
	}
}

// The record says suspending, no worker has started, and someone types.
func TestActivityBetweenTheDecisionAndTheLock(t *testing.T) {
	t.Parallel()
	h := start(t)
	v := h.idle("work", grace)
	n := h.count(v.UID)
	h.worker.end(t)
	h.until("work", "suspending", func(v statekv.Versioned) bool { return v.State == schemas.Suspending })
	h.say("work", schemas.KindInput, "", schemas.Activity{})
	calls := h.fake.Calls()
	h.beginWorker() // which undoes it, or, if the image is done before it hears, what came of it
	h.until("work", "running again", madeBy(schemas.TSuspendAborted, schemas.TRevived))
	for len(calls) > 0 {
		if c := <-calls; c.Method == "Stop" {
			t.Error("its processes were ended")
		}
	}
	if m := h.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	h.audited()
}

func TestPromptDuringSuspend(t *testing.T) {
	t.Parallel()
	h := start(t)
	v := h.idle("work", grace)
	n := h.count(v.UID)
	entered := make(chan struct{}, 1)
	h.fake.Script("Capture", fake.Step{Entered: entered, Block: make(chan struct{})}) // only activity ends it
	<-entered
	h.say("work", schemas.KindInput, "", schemas.Activity{})
	h.until("work", "running again", madeBy(schemas.TSuspendAborted))
	if m := h.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
}

func TestAutomaticReconnectsDontWakeOrUndoASuspend(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.idle("work", grace)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	h.fake.Script("Capture", fake.Step{Entered: entered, Block: release})
	<-entered
	again := schemas.Activity{Intent: schemas.IntentReconnect}
	h.say("work", schemas.KindInput, "", again)
	h.say("work", schemas.KindHTTP, "", again)
	h.say("work", schemas.KindPresence, "tab", schemas.Activity{Intent: schemas.IntentReconnect, TTL: schemas.Duration(time.Minute)})
	close(release)
	h.until("work", "suspended", isState(schemas.Suspended))
	seq := h.say("work", schemas.KindInput, "", again)
	woke := h.say("work", schemas.KindInput, "", schemas.Activity{})
	h.until("work", "running", isState(schemas.Running))
	if e := h.first("work", schemas.TResume).Transition.Evidence; e == nil || e.Seq != woke || e.Seq == seq {
		t.Errorf("it was woken by %+v, want number %d", e, woke)
	}
	if got := h.types("work"); slices.Contains(got, schemas.TSuspendAborted) || slices.Contains(got, schemas.TRevived) {
		t.Errorf("a reconnect undid the suspend: %v", got)
	}
}

// The image is durable and the record says so; the kill is tried until it works.
func TestTerminateFailsAfterTheSnapshot(t *testing.T) {
	t.Parallel()
	h := start(t)
	v := h.run("work")
	n := h.count(v.UID)
	for range 3 {
		h.fake.Script("Stop", fake.Step{Before: errors.New("the kernel is busy")})
	}
	h.do("suspend", schemas.Request{Name: "work"})
	if _, err := h.fake.Inspect(h.ctx, v.UID); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("its processes are still there: %v", err)
	}
	h.do("ensure", schemas.Request{Name: "work"})
	if m := h.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	h.audited()
}

// One who only changes a rule doesn't cost the suspend; one who removes the session
// does, and no image of it stays.
func TestRecordChangedByAnotherActorBetweenSnapshotAndCommit(t *testing.T) {
	t.Parallel()
	h := start(t)
	v := h.run("work")
	n := h.count(v.UID)
	capture := func() (release chan struct{}, ended chan error) {
		entered, release := make(chan struct{}, 1), make(chan struct{})
		h.fake.Script("Capture", fake.Step{Entered: entered, Block: release})
		ended = make(chan error, 1)
		go func() {
			var out any
			ended <- h.ask("suspend", schemas.Request{Name: "work"}, &out)
		}()
		<-entered
		return release, ended
	}
	release, ended := capture()
	_, err := h.records.Update(h.ctx, h.get("work").Name(), func(schemas.SessionRecord) (schemas.Transition, bool, error) {
		return schemas.Transition{Type: schemas.TIdleRule, Actor: "another", Set: schemas.Set{Idle: &schemas.Idle{Never: true}}}, true, nil
	})
	h.must(err)
	close(release)
	h.must(<-ended)
	if got := h.get("work"); got.State != schemas.Suspended || got.Idle == nil || !got.Idle.Never {
		t.Errorf("it is %s with the rule %+v", got.State, got.Idle)
	}
	h.do("ensure", schemas.Request{Name: "work"})
	if m := h.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	release, ended = capture()
	removed := make(chan error, 1)
	go func() {
		var out any
		removed <- h.ask("rm", schemas.Request{Name: "work"}, &out)
	}()
	h.until("work", "deleted", func(v statekv.Versioned) bool { return v.State == schemas.Deleted })
	close(release)
	h.must(<-removed)
	if err := <-ended; code(err) == "" {
		t.Error("the suspend of a removed session is answered with success")
	}
	if _, err := h.fake.Inspect(h.ctx, v.UID); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("its processes are still there: %v", err)
	}
	h.audited()
}

// The session runs on after each, the third opens the breaker: said once, seen by
// all, and closed by a suspend that works or a reset.
func TestCaptureFailsThreeTimes(t *testing.T) {
	t.Parallel()
	h := start(t)
	v := h.run("work")
	n := h.count(v.UID)
	fail := func(times int) {
		for range times {
			h.fake.Script("Capture", fake.Step{Before: errors.New("the store is full")})
			var out any
			if err := h.ask("suspend", schemas.Request{Name: "work"}, &out); code(err) != schemas.CodeFailed {
				t.Fatalf("suspend: %v", err)
			}
		}
	}
	fail(2)
	if f := h.get("work").Failure; f == nil || f.Open || f.Count != 2 {
		t.Errorf("after two: %+v", f)
	}
	fail(2)
	got := h.do("show", schemas.Request{Name: "work"})
	if got.State != schemas.Running || got.Failure == nil || !got.Failure.Open || got.Failure.Count != 4 {
		t.Errorf("after four it is %s, %+v", got.State, got.Failure)
	}
	var e schemas.Explanation
	h.must(h.ask("explain", schemas.Request{Name: "work"}, &e))
	if !strings.Contains(e.Text, "breaker is open") {
		t.Errorf("explain says %q", e.Text)
	}
	if said := h.events("breaker_open"); len(said) != 1 {
		t.Errorf("it is said %d times: %v", len(said), said)
	}
	h.do("suspend", schemas.Request{Name: "work", Reset: true})
	if f := h.get("work").Failure; f != nil {
		t.Errorf("after the reset: %+v", f)
	}
	fail(3)
	h.do("suspend", schemas.Request{Name: "work"})
	h.do("ensure", schemas.Request{Name: "work"})
	if m := h.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	if f := h.get("work").Failure; f != nil {
		t.Errorf("after a suspend that worked: %+v", f)
	}
	if said := h.events("breaker_open"); len(said) != 2 {
		t.Errorf("a second opening is said %d times: %v", len(said)-1, said)
	}
	h.audited()
}

// One that was made to be stopped then is, after the third and not before, and its last
// snapshot stays.
func TestStoppedWhenCaptureFailsThreeTimes(t *testing.T) {
	t.Parallel()
	h := start(t)
	req := runRequest("work", "count")
	req.Run.OnBreaker = schemas.BreakerStop
	v := h.do("run", req)
	h.count(v.UID)
	h.do("checkpoint", schemas.Request{Name: "work"})
	for i := range 3 {
		if got := h.get("work"); got.State != schemas.Running {
			t.Fatalf("it is %s after %d", got.State, i)
		}
		h.fake.Script("Capture", fake.Step{Before: errors.New("the store is full")})
		var out any
		if err := h.ask("suspend", schemas.Request{Name: "work"}, &out); code(err) == "" {
			t.Fatal("the suspend works")
		}
	}
	got := h.until("work", "stopped", isState(schemas.Exited))
	if !strings.Contains(got.Transition.Reason, "3 suspends failed") || got.Head == nil || got.Exit == nil {
		t.Errorf("stopped because %q, exit %+v, head %v", got.Transition.Reason, got.Exit, got.Head)
	}
	if _, err := h.fake.Inspect(h.ctx, v.UID); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("its processes are still there: %v", err)
	}
	if ok, err := stored(h, got.Head.Name); err != nil || !ok {
		t.Errorf("its snapshot is in the store: %v, %v", ok, err)
	}
	if said := h.events("breaker_open"); len(said) != 1 || !strings.Contains(said[0], "it is stopped as soon as") {
		t.Errorf("what is said of it: %v", said)
	}
	h.audited()
}

// One that was made to be stopped then isn't while it is in use: it is when a suspend fails
// once more.
func TestNotStoppedWhileInUse(t *testing.T) {
	t.Parallel()
	h := start(t)
	req := runRequest("work", "count")
	req.Run.OnBreaker = schemas.BreakerStop
	v := h.do("run", req)
	h.count(v.UID)
	entered := make(chan struct{}, 1)
	fails := func(verb string, s fake.Step) {
		t.Helper()
		h.fake.Script("Capture", s)
		var out any
		if err := h.ask(verb, schemas.Request{Name: "work"}, &out); code(err) == "" {
			t.Fatalf("%s works", verb)
		}
	}
	full := errors.New("the store is full")
	fails("suspend", fake.Step{Before: full})
	fails("suspend", fake.Step{Before: full})
	block := make(chan struct{})
	go func() {
		<-entered
		h.say("work", schemas.KindHeartbeat, "", schemas.Activity{}) // which undoes no suspend that was asked for
		close(block)
	}()
	fails("suspend", fake.Step{Before: full, Entered: entered, Block: block})
	for range 2 { // its worker looks again after each
		fails("checkpoint", fake.Step{Before: full})
	}
	if r := h.get("work"); r.State != schemas.Running || r.Failure == nil || !r.Failure.Open {
		t.Errorf("in use, it is %s, %+v", r.State, r.Failure)
	}
	fails("suspend", fake.Step{Before: full})
	h.until("work", "stopped", isState(schemas.Exited))
	h.audited()
}

// A resume whose image isn't there changes nothing and says so; with the image back it
// works.
func TestImageGone(t *testing.T) {
	t.Parallel()
	h := start(t)
	v := h.run("work")
	n := h.count(v.UID)
	h.do("suspend", schemas.Request{Name: "work"})
	head := h.get("work").Head.Name
	r, err := h.disk.Get(h.ctx, head, 0, -1)
	h.must(err)
	data, err := io.ReadAll(r)
	h.must(errors.Join(err, r.Close()))
	h.must(h.disk.Delete(h.ctx, head))
	var out any
	if err := h.ask("ensure", schemas.Request{Name: "work"}, &out); code(err) != schemas.CodeFailed {
		t.Errorf("ensure: %v", err)
	}
	got := h.until("work", "suspended", isState(schemas.Suspended))
	if got.Failure == nil || got.Failure.Op != schemas.OpResume || got.Head == nil || got.Head.Name != head {
		t.Errorf("it goes on from %v, failure %+v", got.Head, got.Failure)
	}
	if _, err := h.fake.Inspect(h.ctx, v.UID); !errors.Is(err, driver.ErrNotHere) {
		t.Errorf("something of it is on the host: %v", err)
	}
	h.must(h.disk.Put(h.ctx, head, bytes.NewReader(data), int64(len(data))))
	h.do("resume", schemas.Request{Name: "work"})
	if m := h.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	h.audited()
}
