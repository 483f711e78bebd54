package triggers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/triggers"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 2 * time.Minute

var agent = schemas.Name{Tenant: "acme", Session: "agent"}

// bench is a taker on a NATS server, with a checkpointer that does what it is told to.
type bench struct {
	*testing.T
	ctx  context.Context
	js   jetstream.JetStream
	want schemas.Triggers
	to   triggers.Checkpointer // the bench itself if nil

	asked   chan triggers.Ask
	answers chan func() (triggers.Outcome, error)

	mu      sync.Mutex
	records map[schemas.Name]schemas.SessionRecord
	counts  map[string]int
}

func newBench(t *testing.T, want ...string) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	b := &bench{
		T: t, ctx: ctx, want: want, asked: make(chan triggers.Ask), answers: make(chan func() (triggers.Outcome, error)),
		records: map[schemas.Name]schemas.SessionRecord{agent: {}}, counts: map[string]int{},
	}
	b.js = natstest.Streams(t)
	return b
}

// serve runs a taker; it ends with the test, or when the function is called.
func (b *bench) serve() (stop func()) {
	ctx, cancel := context.WithCancel(b.ctx)
	to := b.to
	if to == nil {
		to = b
	}
	taker := triggers.New(triggers.Options{
		JS: b.js, Names: stream.NamesWith(""), To: to,
		Wanted: func(schemas.SessionRecord) schemas.Triggers { return b.want },
		Count: func(trigger, outcome string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.counts[trigger+" "+outcome]++
		},
	})
	done := make(chan error, 1)
	go func() { done <- taker.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	return stop
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// Checkpoint implements triggers.Checkpointer: the test says what comes of it.
func (b *bench) Checkpoint(ctx context.Context, a triggers.Ask) (triggers.Outcome, error) {
	select {
	case b.asked <- a:
	case <-ctx.Done():
		return triggers.Outcome{}, ctx.Err()
	}
	select {
	case answer := <-b.answers:
		return answer()
	case <-ctx.Done():
		return triggers.Outcome{}, ctx.Err()
	}
}

// Seen implements triggers.Checkpointer.
func (b *bench) Seen(n schemas.Name) (schemas.SessionRecord, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.records[n]
	return r, ok
}

func (b *bench) say(trigger string, a schemas.Activity) uint64 {
	b.Helper()
	data, err := json.Marshal(a)
	b.must(err)
	ack, err := b.js.Publish(b.ctx, schemas.ActivitySubject(agent, schemas.KindAgent, trigger), data)
	b.must(err)
	return ack.Sequence
}

// begins waits until a checkpoint is requested.
func (b *bench) begins() triggers.Ask {
	b.Helper()
	select {
	case a := <-b.asked:
		return a
	case <-b.ctx.Done():
		b.Fatalf("no checkpoint is requested; %v", b.count())
	}
	return triggers.Ask{}
}

func (b *bench) answer(o triggers.Outcome, err error) {
	b.Helper()
	select {
	case b.answers <- func() (triggers.Outcome, error) { return o, err }:
	case <-b.ctx.Done():
		b.Fatal("no caller waits for the answer")
	}
}

func (b *bench) count() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]int{}
	for k, n := range b.counts {
		out[k] = n
	}
	return out
}

func (b *bench) until(want string, n int) {
	b.Helper()
	for b.count()[want] < n {
		select {
		case <-b.ctx.Done():
			b.Fatalf("waited in vain for %d times %q: %v", n, want, b.count())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// What comes while a checkpoint is made is coalesced: the newest is next, and says how many
// it stands for.
func TestNewestWins(t *testing.T) {
	b := newBench(t, "run_boundaries", "before:deploy")
	b.serve()
	b.say("run_start", schemas.Activity{RunID: "r-1", Reason: "mend the tests", By: "coder"})
	first := b.begins()
	if first.Trigger != schemas.TriggerRunStart || first.RunID != "r-1" || first.Text != "mend the tests" || first.Actor() != "agent:coder" || first.Skipped != 0 {
		t.Errorf("the first: %+v", first)
	}
	for i := range 3 {
		b.say("run_start", schemas.Activity{RunID: fmt.Sprintf("r-%d", i)})
		b.until("run_start skipped", i)
		b.say("before", schemas.Activity{Action: "read"}) // no checkpoint is wanted for that
		b.until("before off", i+1)
	}
	last := b.say("before", schemas.Activity{Action: "deploy", RunID: "r-9"})
	b.until("run_start skipped", 3)
	b.answer(triggers.Outcome{Word: triggers.Done, Frozen: 10 * time.Millisecond}, nil)
	next := b.begins()
	if next.Trigger != schemas.TriggerBefore || next.Action != "deploy" || next.Skipped != 3 || next.Seq != last {
		t.Errorf("the next: %+v, want sequence %d", next, last)
	}
	if want := "an agent says before deploy, run r-9 (3 before it were skipped: there was no time for them)"; next.Reason() != want {
		t.Errorf("reason %q, want %q", next.Reason(), want)
	}
	b.answer(triggers.Outcome{}, errors.New("the store is away"))
	b.until("before failed", 1)
	b.say("run_end", schemas.Activity{})
	if third := b.begins(); third.Trigger != schemas.TriggerRunEnd || third.Skipped != 0 {
		t.Errorf("after a failure: %+v", third)
	}
	b.answer(triggers.Outcome{Word: triggers.Dropped, Why: "it sleeps"}, nil)
	b.until("run_end dropped", 1)
	if off := b.count()["before off"]; off != 3 {
		t.Errorf("%d were not wanted, want 3", off)
	}
}

// What was acted on, spoke of an earlier session of the name, or is of none, is passed
// over; what came shortly before the taker did is not. The clocks of hosts, which records
// have their times from, may be hours from the server's.
func TestAtMostOnce(t *testing.T) {
	for _, off := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) { atMostOnce(t, off) })
	}
}

func atMostOnce(t *testing.T, off time.Duration) {
	b := newBench(t, "run_start", "run_end", "before", "manual")
	b.records[agent] = schemas.SessionRecord{Born: b.say("run_start", schemas.Activity{RunID: "of another life"})}
	stop := b.serve()
	b.say("run_start", schemas.Activity{RunID: "one"})
	a := b.begins()
	if a.RunID != "one" {
		t.Fatalf("requested for %+v", a)
	}
	b.mu.Lock()
	b.records[agent] = schemas.SessionRecord{Triggered: a.Seq}
	b.mu.Unlock()
	b.answer(triggers.Outcome{Word: triggers.Done}, nil)
	b.until("run_start done", 1)
	stop()
	before := b.say("before", schemas.Activity{RunID: "before it was suspended"}) // no taker hears that just now
	b.mu.Lock()
	b.records[agent] = schemas.SessionRecord{Triggered: a.Seq, Seq: before, Since: time.Now().Add(off)}
	b.mu.Unlock()
	b.say("run_end", schemas.Activity{RunID: "two"})
	data := []byte(`{"run_id":"stranger"}`)
	_, err := b.js.Publish(b.ctx, schemas.ActivitySubject(schemas.Name{Tenant: "acme", Session: "unknown"}, schemas.KindAgent, "manual"), data)
	b.must(err)
	b.serve()
	if again := b.begins(); again.RunID != "two" || again.Skipped != 0 {
		t.Errorf("after a restart: %+v", again)
	}
	b.answer(triggers.Outcome{Word: triggers.Done}, nil)
	b.until("run_end done", 1)
	if n := len(b.count()); n != 2 {
		t.Errorf("counted %v", b.count())
	}
}

// elsewhen is a JetStream whose server's clock differs from this host's.
type elsewhen struct {
	jetstream.JetStream
	off time.Duration
}

func (e elsewhen) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := e.JetStream.Stream(ctx, name)
	return stamped{s, e.off}, err
}

type stamped struct {
	jetstream.Stream
	off time.Duration
}

func (s stamped) CachedInfo() *jetstream.StreamInfo {
	info := *s.Stream.CachedInfo()
	info.TimeStamp = info.TimeStamp.Add(s.off)
	return &info
}

// reads waits until the taker has its consumer.
func (b *bench) reads() {
	b.Helper()
	s, err := b.js.Stream(b.ctx, stream.NamesWith("").Activity())
	b.must(err)
	for {
		info, err := s.Info(b.ctx)
		b.must(err)
		if info.State.Consumers > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// How old a trigger is that was not heard when it came goes by the server's clock.
func TestAgeIsByTheServersClock(t *testing.T) {
	b := newBench(t, "manual")
	b.say("manual", schemas.Activity{RunID: "old"})
	b.js = elsewhen{b.js, time.Hour} // that message is an hour old to it
	b.serve()
	b.reads()
	b.say("manual", schemas.Activity{RunID: "new"})
	if a := b.begins(); a.RunID != "new" || a.Skipped != 0 {
		t.Errorf("requested for %+v", a)
	}
	b.answer(triggers.Outcome{Word: triggers.Done}, nil)
}

// counting makes checkpoints of many sessions, and counts those of one time.
type counting struct {
	*bench
	host      func(schemas.Name) schemas.HostID
	now, most map[schemas.HostID]int
}

func (c *counting) Seen(n schemas.Name) (schemas.SessionRecord, bool) {
	return schemas.SessionRecord{Host: c.host(n)}, true
}

func (c *counting) Checkpoint(_ context.Context, a triggers.Ask) (triggers.Outcome, error) {
	h := c.host(a.Name)
	c.mu.Lock()
	c.now[h]++
	c.most[h] = max(c.most[h], c.now[h])
	c.mu.Unlock()
	for range 100 {
		runtime.Gosched() // others come in
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[h]--
	return triggers.Outcome{Word: triggers.Done}, nil
}

// Many sessions at one time: a host makes a few checkpoints beside each other, and comes to
// all of them.
func TestFewAtOnce(t *testing.T) {
	b := newBench(t, "manual")
	c := &counting{bench: b, now: map[schemas.HostID]int{}, most: map[schemas.HostID]int{}}
	c.host = func(n schemas.Name) schemas.HostID { return schemas.HostID(n.Session[:1]) }
	b.to = c
	b.serve()
	const each = 40
	for i := range each {
		for _, host := range []string{"a", "b"} {
			n := schemas.Name{Tenant: "acme", Session: schemas.SessionID(fmt.Sprintf("%s%d", host, i))}
			_, err := b.js.PublishAsync(schemas.ActivitySubject(n, schemas.KindAgent, "manual"), nil)
			b.must(err)
		}
	}
	b.until("manual done", 2*each)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, host := range []schemas.HostID{"a", "b"} {
		if most := c.most[host]; most < 1 || most > 4 {
			t.Errorf("host %s: %d at once, want 1 to 4", host, most)
		}
	}
}

// Nothing is wanted, nothing is done.
func TestOff(t *testing.T) {
	b := newBench(t)
	b.serve()
	for _, trigger := range []string{"run_start", "run_end", "before", "after", "manual"} {
		b.say(trigger, schemas.Activity{Action: "deploy"})
		b.until(trigger+" off", 1)
	}
}
