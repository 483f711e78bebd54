package triggers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Options is what a taker is made of.
type Options struct {
	JS    jetstream.JetStream
	Names stream.Names
	To    Checkpointer
	// Wanted says which triggers make a checkpoint of a session.
	Wanted func(schemas.SessionRecord) schemas.Triggers
	// Count, if given, is told what became of each.
	Count func(trigger, outcome string)
	Log   *slog.Logger
}

// Taker acts on triggers; Serve runs it.
type Taker struct {
	Options
	wg sync.WaitGroup

	mu    sync.Mutex
	asked map[schemas.Name]*line
	slots map[schemas.HostID]chan struct{} // of checkpoints at one time
}

// line is what is to be done for one session; while there is one, so is its goroutine.
type line struct {
	next *Ask // nil if there is nothing
}

// atOnce bounds the checkpoints that are made for agents on one host at one time, and
// inLine the sessions that something is to be done for: more are told that there was no
// time for them.
const (
	atOnce = 4
	inLine = 10_000
)

// fresh is how old a trigger may be that was not heard when it came.
const fresh = 30 * time.Second

// patience is how long one checkpoint may take, waiting for its turn included.
const patience = 5 * time.Minute

// New makes a taker.
func New(o Options) *Taker {
	if o.Count == nil {
		o.Count = func(string, string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Taker{Options: o, asked: map[schemas.Name]*line{}, slots: map[schemas.HostID]chan struct{}{}}
}

// Serve acts on what agents say until ctx ends, and returns when all that it began has
// stopped.
func (t *Taker) Serve(ctx context.Context) error {
	defer t.wg.Wait()
	s, err := t.JS.Stream(ctx, t.Names.Activity())
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find stream %s: %w", t.Names.Activity(), err)
	}
	own, end, err := stream.Apart(t.JS)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer end()
	since := s.CachedInfo().TimeStamp.Add(-fresh) // by the clock that stamped the messages
	cfg := jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since,
		FilterSubjects: []string{schemas.SubjectStored + ".*.*.*." + string(schemas.KindAgent) + ".>"},
	}
	s, err = own.Stream(ctx, t.Names.Activity())
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find stream %s: %w", t.Names.Activity(), err)
	}
	return stream.Consume(ctx, own, s, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, live bool) error {
		t.hear(ctx, msg, meta, live)
		return nil
	}, func() {}, func() {})
}

// hear takes one message. What isn't a trigger is counted elsewhere, with all activity.
// A trigger from before the taker started is ignored if the session was started, resumed,
// suspended or captured after it: its moment is over. The stream's order decides, since
// clocks of hosts don't agree.
func (t *Taker) hear(ctx context.Context, msg *nats.Msg, meta *jetstream.MsgMetadata, live bool) {
	src, err := schemas.ParseActivitySubject(msg.Subject)
	if err != nil || src.Kind != schemas.KindAgent {
		return
	}
	said, err := schemas.ParseMessage(msg.Header, msg.Data)
	if err != nil {
		return
	}
	a := said.Activity
	r, ok := t.To.Seen(src.Name)
	over := max(r.Born, r.Triggered)
	if !live {
		over = max(over, r.Seq)
	}
	if !ok || meta.Sequence.Stream <= over {
		return
	}
	trigger := schemas.Trigger(src.Key)
	if !t.Wanted(r).Want(trigger, a.Action) {
		t.Count(src.Key, Off)
		return
	}
	t.enqueue(ctx, Ask{
		Name: src.Name, Trigger: trigger, Action: a.Action, RunID: a.RunID, Text: a.Reason, By: a.By, Seq: meta.Sequence.Stream,
	})
}

// enqueue has a trigger be acted on next for its session: the newest wins.
func (t *Taker) enqueue(ctx context.Context, a Ask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, busy := t.asked[a.Name]
	if busy && l.next != nil {
		a.Skipped = l.next.Skipped + 1
		t.Count(string(l.next.Trigger), Skipped)
	}
	if !busy && len(t.asked) >= inLine {
		t.Count(string(a.Trigger), Skipped)
		return
	}
	if !busy {
		l = &line{}
		t.asked[a.Name] = l
		t.wg.Go(func() { t.work(ctx, a.Name, l) })
	}
	l.next = &a
}

// take gives what is to be done next for a session; with nothing to do its line is
// forgotten.
func (t *Taker) take(n schemas.Name, l *line) *Ask {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := l.next
	l.next = nil
	if a == nil {
		delete(t.asked, n)
	}
	return a
}

// slotsOf gives the slots of the host that a session is on.
func (t *Taker) slotsOf(n schemas.Name) chan struct{} {
	r, _ := t.To.Seen(n)
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.slots[r.Host]
	if !ok {
		s = make(chan struct{}, atOnce)
		t.slots[r.Host] = s
	}
	return s
}

// work acts on the triggers of one session, one after the other.
func (t *Taker) work(ctx context.Context, n schemas.Name, l *line) {
	var p pace
	for {
		slots := t.slotsOf(n)
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		a := t.take(n, l)
		if a == nil {
			<-slots
			return
		}
		o := t.act(ctx, *a)
		<-slots
		if ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(p.after(o)):
		case <-ctx.Done():
			return
		}
	}
}

func (t *Taker) act(ctx context.Context, a Ask) Outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o, err := t.To.Checkpoint(ctx, a)
	if err != nil {
		o = Outcome{Word: Failed, Why: err.Error(), Frozen: o.Frozen}
	}
	switch o.Word {
	case Failed:
		t.Log.Warn("no checkpoint for what an agent did; the session runs on", "session", a.Name.String(), "trigger", a.Trigger, "run", a.RunID, "err", o.Why)
	case Dropped:
		t.Log.Info("no checkpoint for what an agent did", "session", a.Name.String(), "trigger", a.Trigger, "because", o.Why)
	}
	t.Count(string(a.Trigger), o.Word)
	return o
}
