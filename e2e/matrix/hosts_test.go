package matrix

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/e2e/natscluster"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake/guard"
)

// machine is a host whose worker can be stopped: what it says and hears waits, and so
// does what it has its driver do. Its sessions are beside it, and go on.
type machine struct {
	id     schemas.HostID
	others []*machine
	door   *natscluster.Door
	nc     *nats.Conn
	guard  *guard.Guard

	mu     sync.Mutex
	going  chan struct{} // closed while it isn't stopped
	leases map[schemas.UID]lease.Clock
}

// stop has the worker stand still until goOn.
func (m *machine) stop() {
	m.mu.Lock()
	m.going = make(chan struct{})
	m.mu.Unlock()
	m.door.Stall()
}

func (m *machine) goOn() {
	m.door.Heal()
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.going:
	default:
		close(m.going)
	}
}

// step is what the worker does next: nothing while it is stopped.
func (m *machine) step() {
	m.mu.Lock()
	going := m.going
	m.mu.Unlock()
	<-going
}

// shims are a machine's driver: the fake, whose sessions guard themselves by the lease that
// they heard of last, as real ones do.
type shims struct {
	*guard.Guard
	m *machine
}

var _ driver.Guarder = shims{}

// hear takes in what a fence says of the lease; one that is over is refused.
func (s shims) hear(f driver.Fence) error {
	if f.Lease == nil {
		return nil
	}
	until := f.Lease().Until
	left := until.Sub(lease.Now())
	if left <= 0 {
		return driver.ErrNoLease
	}
	if f.Guard {
		if s.over(f.UID) {
			s.Fence(f.UID) // the timer is late
		}
		s.m.mu.Lock()
		s.m.leases[f.UID] = max(until, s.m.leases[f.UID])
		s.m.mu.Unlock()
		time.AfterFunc(left, func() {
			if s.over(f.UID) {
				s.Fence(f.UID)
			}
		})
	}
	return nil
}

// over reports whether a session that guards itself must stand still.
func (s shims) over(uid schemas.UID) bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	until, guards := s.m.leases[uid]
	return guards && lease.Now() >= until
}

// alone complains if another machine runs the session that is about to run here.
func (s shims) alone(f driver.Fence) {
	for _, o := range s.m.others {
		if i, err := o.guard.Inspect(context.Background(), f.UID); err == nil && i.State == driver.Running {
			s.Complain("session %s is to run on %s while it does on %s", f.Name, s.m.id, o.id)
		}
	}
}

func (s shims) begins(f driver.Fence, begin func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := begin(ctx)
		s.m.step()
		if err == nil {
			err = s.hear(f)
		}
		if err == nil {
			s.alone(f)
		}
		return err
	}
}

// Renew implements driver.Guarder.
func (s shims) Renew(_ context.Context, f driver.Fence) error {
	s.m.step()
	return s.hear(f)
}

// Start implements driver.Driver.
func (s shims) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	s.m.step()
	i, err := s.Guard.Start(ctx, f, spec, s.begins(f, begin))
	s.m.step()
	return i, err
}

// Restore implements driver.Driver.
func (s shims) Restore(ctx context.Context, f driver.Fence, spec schemas.Spec, src driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	s.m.step()
	i, err := s.Guard.Restore(ctx, f, spec, src, boot, s.begins(f, begin))
	s.m.step()
	return i, err
}

// Capture implements driver.Driver.
func (s shims) Capture(ctx context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	s.m.step()
	c, err := s.Guard.Capture(ctx, f, sink)
	s.m.step()
	return c, err
}

// Thaw implements driver.Driver.
func (s shims) Thaw(ctx context.Context, f driver.Fence) error {
	s.m.step()
	err := s.hear(f)
	if err == nil && s.over(f.UID) {
		err = driver.ErrNoLease
	}
	if err != nil {
		return &driver.Error{Kind: driver.Transient, Text: "it stays frozen until its host has renewed its lease", Err: err}
	}
	s.alone(f)
	return s.Guard.Thaw(ctx, f)
}

// Stop implements driver.Driver.
func (s shims) Stop(ctx context.Context, f driver.Fence) error {
	s.m.step()
	return s.Guard.Stop(ctx, f)
}

// Inspect implements driver.Driver.
func (s shims) Inspect(ctx context.Context, uid schemas.UID) (driver.Instance, error) {
	s.m.step()
	return s.Guard.Inspect(ctx, uid)
}

// errElsewhere says that a record is of another machine's session, of which a tree here may
// be removed in any case.
var errElsewhere = errors.New("the session is another machine's")
