package simulation

import (
	"context"
	"sync"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// wire keeps activity and commands.
type wire struct {
	mu       sync.Mutex
	said     []session.Message
	commands []schemas.Name
	grown    chan struct{}
}

func newWire() *wire { return &wire{grown: make(chan struct{})} }

// say accepts activity and gives its sequence.
func (w *wire) say(m session.Message) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.Seq, m.At = uint64(len(w.said)+1), time.Now()
	w.said = append(w.said, m)
	w.tell()
	return m.Seq
}

func (w *wire) tell() {
	close(w.grown)
	w.grown = make(chan struct{})
}

func (w *wire) since(seq uint64) ([]session.Message, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seq > uint64(len(w.said)) {
		return nil, w.grown
	}
	return append([]session.Message(nil), w.said[seq:]...), w.grown
}

func (w *wire) next() (n schemas.Name, ok bool, grown <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.commands) == 0 {
		return n, false, w.grown
	}
	n = w.commands[0]
	w.commands = w.commands[1:]
	return n, true, w.grown
}

// bus is the wire as one process sees it: both parts' port.
type bus struct {
	*wire
	l *life
}

func (b bus) Since(ctx context.Context, n schemas.Name, seq uint64) ([]session.Message, error) {
	if err := b.l.step(ctx); err != nil {
		return nil, err
	}
	all, _ := b.since(seq)
	var out []session.Message
	for _, m := range all {
		if m.Source.Name == n {
			out = append(out, m)
		}
	}
	return out, b.l.step(ctx)
}

// follow calls fn for what was said after seq, each a while later.
func (b bus) follow(ctx context.Context, seq uint64, fn func(session.Message)) error {
	for {
		all, grown := b.since(seq)
		for _, m := range all {
			if b.l.step(ctx) != nil {
				return nil
			}
			fn(m)
			seq = m.Seq
		}
		if len(all) > 0 {
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil
		}
	}
}

func (b bus) Listen(ctx context.Context, n schemas.Name, seq uint64, fn func(session.Message)) error {
	return b.follow(ctx, seq, func(m session.Message) {
		if m.Source.Name == n {
			fn(m)
		}
	})
}

// heard is the scheduler's side of bus.
type heard struct{ bus }

func (h heard) Activity(ctx context.Context, fn func(stream.Heard)) error {
	all, _ := h.since(0)
	last := map[schemas.Source]int{}
	for i, m := range all {
		last[m.Source] = i
	}
	for i, m := range all {
		if last[m.Source] != i {
			continue
		}
		if h.l.step(ctx) != nil {
			return nil
		}
		fn(stream.Heard{Message: m})
	}
	fn(stream.Heard{CaughtUp: true})
	return h.follow(ctx, uint64(len(all)), func(m session.Message) {
		m.At = time.Now()
		fn(stream.Heard{Message: m})
	})
}

func (h heard) Command(ctx context.Context, r schemas.SessionRecord) error {
	if err := h.l.step(ctx); err != nil {
		return err
	}
	if h.l.w.chance(10) {
		return nil // lost
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commands = append(h.commands, r.Name())
	h.tell()
	return nil
}

func (b bus) Activity(ctx context.Context, n schemas.Name, k schemas.Kind, key string, a schemas.Activity) (uint64, error) {
	if err := b.l.step(ctx); err != nil {
		return 0, err
	}
	return b.say(session.Message{Source: schemas.Source{Name: n, Kind: k, Key: key}, Activity: a}), nil
}

func (b bus) Event(ctx context.Context, _ schemas.Event) error { return b.l.step(ctx) }

func (b bus) Commands(ctx context.Context, _ schemas.HostID, fn func(schemas.Name)) error {
	for {
		n, ok, grown := b.next()
		if ok {
			if b.l.step(ctx) != nil {
				return nil
			}
			fn(n)
			continue
		}
		select {
		case <-grown:
		case <-b.l.gone:
			<-b.l.w.end
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (b bus) Announce(ctx context.Context, _ schemas.Host) error { return b.l.step(ctx) }

func (b bus) Progress(schemas.Name, schemas.Progress) {}
