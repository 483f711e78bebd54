package robustness_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/e2e/natscluster"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/worker"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = 6 * time.Minute

// machines are hosts and services around NATS servers, each part with a door of its
// own to them.
type machines struct {
	t       *testing.T
	said    io.Writer // what the parts say
	log     *slog.Logger
	names   stream.Names
	cluster *natscluster.Cluster
	store   *slowStore
	key     *age.X25519Identity
	signer  ed25519.PrivateKey
	hosts   []*host // with fakes
	parts   []*part
	server  *part // NATS, if it is a process of its own

	// The tester's own way in, which no fault stands in.
	nc      *nats.Conn
	js      jetstream.JetStream
	records *statekv.Store

	elsewhere interface { // where real sessions are
		left() []string
		end() []string
	}

	mu     sync.Mutex
	broken []string // promises that were seen broken
}

// host is a machine: its sessions outlive its worker.
type host struct {
	id   schemas.HostID
	fake *fake.Driver
}

// part is one process of the fleet, or as good as one, which is started again when it
// ends.
type part struct {
	name   string
	door   *natscluster.Door
	serve  func(context.Context, *nats.Conn) error
	own    *process // that it is; nil if it is as good as one
	log    *slog.Logger
	cancel context.CancelFunc
	done   chan struct{}
}

// newMachines makes them, with two hosts and two services, each a process of its own if
// the kind says so; or with none, where the program is to run.
func newMachines(t *testing.T, k kind, said io.Writer) *machines {
	t.Helper()
	f := &machines{t: t, said: said, log: slog.New(slog.NewTextHandler(said, nil)), names: stream.NamesWith("")}
	if k.own {
		f.cluster = f.serveNATS()
	} else {
		f.cluster = natscluster.Start(t, k.servers)
	}
	var err error
	f.nc, err = f.cluster.Door().Connect()
	f.must(err)
	t.Cleanup(f.nc.Close)
	f.js, err = jetstream.New(f.nc)
	f.must(err)
	f.ensure(min(k.servers, 3))
	f.records, err = statekv.Open(t.Context(), f.js, f.names)
	f.must(err)
	images := t.TempDir()
	disk, err := dir.Open(images)
	f.must(err)
	f.store = &slowStore{Store: disk, flag: filepath.Join(t.TempDir(), "slow")}
	f.key, err = age.GenerateX25519Identity()
	f.must(err)
	_, f.signer, err = ed25519.GenerateKey(nil)
	f.must(err)
	if k.program {
		return f
	}
	f.addFakes(k.own, images)
	return f
}

// addFakes adds two hosts whose sessions are fakes, and two services.
func (f *machines) addFakes(own bool, images string) {
	for i := range 2 {
		h := &host{id: schemas.HostID(fmt.Sprintf("h%d", i)), fake: fake.New()}
		f.hosts = append(f.hosts, h)
		f.add("worker "+string(h.id), func(ctx context.Context, nc *nats.Conn) error {
			return f.work(ctx, nc, h.id, &guard{Driver: h.fake, f: f, host: h})
		}, f.process(own, order{Host: h.id, Images: images, Driver: f.drive(own, h)}))
	}
	for i, h := range f.hosts {
		f.add(fmt.Sprint("services ", i), func(ctx context.Context, nc *nats.Conn) error { return f.decide(ctx, nc, h.id) },
			f.process(own, order{Host: h.id, Images: images}))
	}
}

// ensure makes the streams. A cluster may still be choosing who places them.
func (f *machines) ensure(replicas int) {
	f.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		err := stream.Ensure(f.t.Context(), f.js, f.names, replicas)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			f.t.Fatal(err)
		}
	}
	f.cluster.AwaitCurrent(f.streams()...)
}

func (f *machines) streams() []string {
	return []string{f.names.SessionStream(), f.names.Activity(), f.names.Commands(), f.names.Events()}
}

func (f *machines) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *machines) add(name string, serve func(context.Context, *nats.Conn) error, own *process) {
	p := &part{name: name, door: f.cluster.Door(), serve: serve, own: own, log: f.log.With("part", name)}
	f.parts = append(f.parts, p)
	p.begin()
	f.t.Cleanup(p.end)
}

// begin runs the part until end, again if it ends before.
func (p *part) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			if err := p.run(ctx); err != nil && ctx.Err() == nil {
				p.log.Info("ended, and is started again", "err", err)
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
}

func (p *part) run(ctx context.Context) error {
	if p.own != nil {
		return p.own.run(ctx, p.name, p.door.URLs())
	}
	nc, err := p.door.Connect(nats.Name(p.name))
	if err != nil {
		return err
	}
	defer nc.Close()
	return p.serve(ctx, nc)
}

// end ends the part at any moment.
func (p *part) end() {
	p.cancel()
	<-p.done
}

// term is how long a host counts as there after it was heard of last.
const term = 3 * time.Second

// open gives a part its own view of the streams.
func (f *machines) open(ctx context.Context, nc *nats.Conn) (jetstream.JetStream, *statekv.Store, *lease.Store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	records, err := statekv.Open(ctx, js, f.names)
	if err != nil {
		return nil, nil, nil, err
	}
	records.Attempt, records.Retry = time.Second, 50*time.Millisecond
	leases, err := lease.Open(ctx, js, f.names)
	return js, records, leases, err
}

func (f *machines) trusted(string, string) []ed25519.PublicKey {
	return []ed25519.PublicKey{f.signer.Public().(ed25519.PublicKey)}
}

func (f *machines) work(ctx context.Context, nc *nats.Conn, at schemas.HostID, d driver.Driver) error {
	js, records, leases, err := f.open(ctx, nc)
	if err != nil {
		return err
	}
	return worker.New(worker.Options{
		Lease: &lease.Holder{Store: leases, Host: at, Term: term, Log: f.log},
		Host:  at, NC: nc, JS: js, Names: f.names, Records: records, Images: f.store,
		Drivers:    map[schemas.DriverName]driver.Driver{"fake": d},
		Identities: []age.Identity{f.key}, Recipients: []age.Recipient{f.key.Recipient()}, Signer: f.signer, Trusted: f.trusted,
		Log: f.log.With("host", at), Observe: 100 * time.Millisecond, Sweep: 300 * time.Millisecond,
	}).Serve(ctx)
}

// decide runs a scheduler and an API that asks it.
func (f *machines) decide(ctx context.Context, nc *nats.Conn, at schemas.HostID) error {
	js, records, leases, err := f.open(ctx, nc)
	if err != nil {
		return err
	}
	hosts := fleet.New(fleet.Options{
		JS: js, Names: f.names, Records: records, Leases: leases, Images: f.store, Trusted: f.trusted,
		Identities: []age.Identity{f.key}, Actor: "fleet@" + string(at), Log: f.log,
	})
	s := scheduler.New(scheduler.Options{JS: js, Names: f.names, Records: records, Log: f.log, Actor: "scheduler@" + string(at)})
	a := api.New(api.Options{
		NC: nc, JS: js, Names: f.names, Records: records, Images: f.store, Scheduler: s, Fleet: hosts, Host: at, Version: "0.0.1", Log: f.log,
		Recipients: []age.Recipient{f.key.Recipient()}, Trusted: f.trusted,
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	for _, serve := range []func(context.Context) error{s.Serve, a.Serve, hosts.Serve} {
		g.Go(func() error {
			defer stop()
			return serve(ctx)
		})
	}
	return g.Wait()
}
