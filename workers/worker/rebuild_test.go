package worker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/rebuild"
	"github.com/diapause/diapause/workers/recovery"
	"github.com/diapause/diapause/workers/worker"
)

// waitsForNone fails a test in which a host waits for others.
func waitsForNone(t *testing.T) func([]schemas.HostID) {
	return func(h []schemas.HostID) { t.Errorf("it waits for %v", h) }
}

// loseLog has NATS come back without the log of sessions.
func (b *bench) loseLog() {
	b.t.Helper()
	b.must(b.js.DeleteStream(b.ctx, b.names.SessionStream()))
	b.must(stream.Ensure(b.ctx, b.js, b.names, 1))
	var err error
	b.records, err = statekv.Open(b.ctx, b.js, b.names)
	b.must(err)
}

// remembering makes a worker with the host's memory in a directory.
func (b *bench) remembering(dir string) *worker.Worker {
	b.t.Helper()
	l, damaged, err := recovery.Open(dir, "h")
	b.must(err)
	if len(damaged) > 0 {
		b.t.Errorf("damaged: %v", damaged)
	}
	o := b.options()
	o.Ledger = l
	return worker.New(o)
}

// serve runs a worker until it ends or stop is called.
func (b *bench) serve(w *worker.Worker) (ended <-chan error, stop func() error) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Serve(ctx) }()
	b.wait(w.Ready())
	return done, func() error { cancel(); return <-done }
}

// A log that was lost is noticed while it is served, and made again before it is served the
// next time. The session runs on.
func TestLogLost(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	w := b.remembering(dir)
	got, err := w.Regain(b.ctx, false, nil, waitsForNone(t))
	b.must(err)
	if len(got.Signs)+len(got.Sessions) > 0 {
		t.Fatalf("on an empty host it recovers %+v", got)
	}
	ended, _ := b.serve(w)
	b.asked("count")
	v := b.until("running", running)
	n := b.count(v.UID)
	b.loseLog()
	if err := <-ended; !errors.Is(err, rebuild.ErrWentBack) {
		t.Fatalf("Serve ends with %v", err)
	}
	b.isOnHost(v.UID, driver.Running)

	w = b.remembering(dir)
	got, err = w.Regain(b.ctx, false, nil, waitsForNone(t))
	b.must(err)
	if len(got.Signs) == 0 || len(got.Sessions) != 1 {
		t.Fatalf("it recovers %+v", got)
	}
	_, stop := b.serve(w)
	now := b.until("recovered", running)
	if now.UID != v.UID || now.Epoch <= v.Epoch || now.Spec != v.Spec || now.Transition.Type != schemas.TRecovered {
		t.Errorf("recovered as %+v", now)
	}
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	b.suspend(false)
	b.until("suspended", suspended)
	b.resume()
	b.until("running", running)
	if m := b.count(v.UID); m != n+2 {
		t.Errorf("it counted to %d, and goes on with %d", n+1, m)
	}
	b.folded()
	b.must(stop())

	w = b.remembering(dir)
	got, err = w.Regain(b.ctx, false, nil, waitsForNone(t))
	b.must(err)
	if len(got.Signs)+len(got.Sessions) > 0 {
		t.Errorf("once more it recovers %+v", got)
	}
}

// A store that can't be asked ends the recovery: no record is made without it.
func TestRegainWithoutStore(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	w := b.remembering(dir)
	_, stop := b.serve(w)
	b.asked("count")
	v := b.until("running", running)
	b.must(stop())
	b.loseLog()
	w = b.remembering(dir)
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := w.Regain(ctx, false, nil, waitsForNone(t)); err == nil {
		t.Error("it recovers without its servers")
	}
	if _, err := b.records.Get(b.ctx, b.name); !errors.Is(err, statekv.ErrNoSession) {
		t.Errorf("the record is %v", err)
	}
	b.isOnHost(v.UID, driver.Running)
}

// No host serves before all have recovered; one that is lost for good has to be named.
func TestHostsRecoverTogether(t *testing.T) {
	b := newBench(t)
	dirs := map[schemas.HostID]string{"h": t.TempDir(), "other": t.TempDir()}
	begin := func(host schemas.HostID) *worker.Worker {
		l, _, err := recovery.Open(dirs[host], host)
		b.must(err)
		o := b.options()
		o.Host, o.Ledger = host, l
		if host != "h" {
			o.Drivers = map[schemas.DriverName]driver.Driver{"fake": fake.New()}
		}
		return worker.New(o)
	}
	var ended []<-chan error
	for _, host := range []schemas.HostID{"h", "other"} {
		w := begin(host)
		_, err := w.Regain(b.ctx, false, nil, waitsForNone(t))
		b.must(err)
		done, _ := b.serve(w)
		ended = append(ended, done)
	}
	b.asked("count")
	v := b.until("running", running)
	n := b.count(v.UID)
	b.loseLog()
	for _, done := range ended {
		if err := <-done; !errors.Is(err, rebuild.ErrWentBack) {
			t.Fatalf("Serve ends with %v", err)
		}
	}
	regained := make(chan error, 1)
	waits := make(chan []schemas.HostID, 4)
	first := begin("h")
	go func() {
		_, err := first.Regain(b.ctx, false, nil, func(h []schemas.HostID) { waits <- h })
		regained <- err
	}()
	if who := <-waits; len(who) != 1 || who[0] != "other" {
		t.Errorf("it waits for %v", who)
	}
	select {
	case err := <-regained:
		t.Fatalf("it serves without the other host (%v)", err)
	default:
	}
	_, err := begin("other").Regain(b.ctx, false, nil, waitsForNone(t))
	b.must(err)
	b.must(<-regained)
	_, stop := b.serve(first)
	b.until("recovered", running)
	if m := b.count(v.UID); m != n+1 {
		t.Errorf("it counted to %d, and goes on with %d", n, m)
	}
	b.must(stop())

	b.loseLog()
	alone := begin("h")
	got, err := alone.Regain(b.ctx, false, []schemas.HostID{"other"}, waitsForNone(t))
	b.must(err)
	if len(got.Sessions) != 1 {
		t.Errorf("without the other host it recovers %+v", got)
	}
	_, stop = b.serve(alone)
	b.must(stop())
}
