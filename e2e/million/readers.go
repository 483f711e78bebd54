package million

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/services/scheduler"
)

// Read is what a reader of a stream says.
type Read struct {
	Messages uint64        `json:"messages"`
	Took     time.Duration `json:"took"`
	CPU      time.Duration `json:"cpu"` // that the process computed for it
}

// Rate is messages a second.
func (r Read) Rate() float64 { return float64(r.Messages) / r.Took.Seconds() }

// Work is messages for each second of computing, which others who use the machine
// change less.
func (r Read) Work() float64 { return float64(r.Messages) / r.CPU.Seconds() }

// computed is what this process has computed.
func computed() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("the process's own usage can't be read: " + err.Error()) // every Linux has it
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bare is the role of an ordered consumer that looks at nothing: the last message
// of every subject of a stream, until there are no more.
func bare(o orders, say func(any), _ <-chan struct{}) error {
	nc, err := nats.Connect(o.URL)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx := context.Background()
	began, before := time.Now(), computed()
	c, err := js.OrderedConsumer(ctx, o.Stream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy})
	if err != nil {
		return err
	}
	it, err := c.Messages()
	if err != nil {
		return err
	}
	defer it.Stop()
	var r Read
	for {
		msg, err := it.Next()
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if r.Messages++; meta.NumPending == 0 {
			r.Took, r.CPU = time.Since(began), computed()-before
			say(r)
			return nil
		}
	}
}

// Folded is what a scheduler says when it has taken in all that was stored.
type Folded struct {
	Records  Read          `json:"records"`
	Activity Read          `json:"activity"`
	Ready    time.Duration `json:"ready"` // since the process connected
	Sessions int           `json:"sessions"`
	Heap     uint64        `json:"heap"` // that it remembers them in, after a collection, in bytes
}

// decide is the role of a scheduler.
func decide(o orders, say func(any), stop <-chan struct{}) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	nc, err := nats.Connect(o.URL, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	names := stream.NamesWith("")
	records, err := statekv.Open(ctx, js, names)
	if err != nil {
		return err
	}
	usual := debug.SetGCPercent(400) // as `diapause scheduler` does
	before := live()
	timed := &timed{Store: records, began: time.Now(), before: computed()}
	s := scheduler.New(scheduler.Options{JS: js, Names: names, Records: timed, Actor: "scheduler@" + o.Name, Heard: func(h stream.Heard) {
		if h.Message.Source.Name.Tenant == sampleTenant {
			tellHeard(nc, h)
		}
	}})
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	select {
	case <-s.Ready():
	case err := <-done:
		return errors.Join(errors.New("the scheduler ended"), err)
	}
	debug.SetGCPercent(usual)
	f := Folded{Ready: time.Since(began), Records: Read{uint64(timed.records), timed.took, timed.cpu}, Sessions: timed.records}
	f.Activity = Read{s.Intake().Activity, time.Since(timed.began) - timed.took, computed() - timed.before - timed.cpu}
	time.Sleep(o.Settle)
	f.Heap = live() - before
	say(f)
	select {
	case <-stop:
		cancel()
		return <-done
	case err := <-done:
		return fmt.Errorf("the scheduler ended: %w", err)
	}
}

// tellHeard says that a message of a sampled session has reached the scheduler.
func tellHeard(nc *nats.Conn, h stream.Heard) {
	data, err := json.Marshal(heardAt{h.Message.Seq, time.Now()})
	if err == nil {
		_ = nc.Publish(heardSubject, data) // else that one isn't timed
	}
}

// timed tells when all records have been read. The activity is read from then on.
type timed struct {
	*statekv.Store
	began   time.Time
	before  time.Duration
	records int
	took    time.Duration
	cpu     time.Duration
}

func (t *timed) Glances(ctx context.Context, fn func(statekv.Glance), caughtUp func()) error {
	return t.Store.Glances(ctx, func(g statekv.Glance) {
		if t.took == 0 {
			t.records++
		}
		fn(g)
	}, func() {
		t.took, t.cpu = time.Since(t.began), computed()-t.before
		caughtUp()
	})
}

// live is what the program's memory holds after a collection.
func live() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
