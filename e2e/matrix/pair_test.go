package matrix

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/e2e/natscluster"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/services/fleet"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/fake"
	"github.com/diapause/diapause/workers/fake/guard"
	"github.com/diapause/diapause/workers/worker"
)

// term is the lease of a machine that may be stopped: long enough for the other one to
// renew its own while this one is busy.
const term = 4 * time.Second

// pair is two machines, either of which may be stopped for longer than its lease, and
// services on a third, which isn't.
type pair struct {
	*lane
	machines [2]*machine
	cluster  *natscluster.Cluster
	fleet    *fleet.Fleet
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{cluster: natscluster.Start(t, 1)}
	l := &lane{t: t, ctx: context.Background(), names: stream.NamesWith(""), points: failpoint.New(), logged: &tail{}}
	p.lane = l
	var err error
	l.client, err = p.cluster.Door().Connect()
	l.must(err)
	t.Cleanup(l.client.Close)
	l.furnish()
	for i := range p.machines {
		p.machines[i] = p.machine(schemas.HostID(fmt.Sprint("m", i)))
	}
	ctx, stop := context.WithCancel(context.Background())
	var g errgroup.Group
	t.Cleanup(func() {
		stop()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a part ended: %v", err)
		}
	})
	p.machines[0].others, p.machines[1].others = []*machine{p.machines[1]}, []*machine{p.machines[0]}
	for _, m := range p.machines {
		p.work(ctx, &g, m)
	}
	p.decide(ctx, &g)
	return p
}

func (p *pair) machine(id schemas.HostID) *machine {
	p.t.Helper()
	m := &machine{id: id, door: p.cluster.Door(), going: make(chan struct{}), leases: map[schemas.UID]lease.Clock{}}
	close(m.going)
	m.guard = &guard.Guard{
		Driver: fake.New(),
		Record: func(n schemas.Name) (schemas.SessionRecord, error) {
			v, err := p.records.Get(p.ctx, n)
			if err == nil && v.Host != id {
				err = errElsewhere
			}
			return v.SessionRecord, err
		},
		Kept: p.kept,
	}
	var err error
	m.nc, err = m.door.Connect()
	p.must(err)
	p.t.Cleanup(m.nc.Close)
	return m
}

// kept is what a session had counted to in an image.
func (p *pair) kept(head schemas.Head) (int, error) {
	return guard.Counter(p.ctx, p.disk, head, image.ReadOptions{Identities: p.identities(), Trusted: p.trusted})
}

// work runs a machine's worker.
func (p *pair) work(ctx context.Context, g *errgroup.Group, m *machine) {
	p.t.Helper()
	js, err := jetstream.New(m.nc)
	p.must(err)
	leases, err := lease.Open(p.ctx, js, p.names)
	p.must(err)
	w := worker.New(worker.Options{
		Lease: &lease.Holder{Store: leases, Host: m.id, Term: term, Log: p.log(string(m.id))},
		Host:  m.id, NC: m.nc, JS: js, Names: p.names, Records: p.open(js), Images: p.disk,
		Drivers: map[schemas.DriverName]driver.Driver{"fake": shims{m.guard, m}}, Identities: p.identities(),
		Recipients: []age.Recipient{p.key.Recipient()}, Signer: p.signer, Trusted: p.trusted, Log: p.log(string(m.id)),
		Observe: time.Hour, Sweep: 300 * time.Millisecond, Failpoints: p.points,
	})
	g.Go(func() error { return w.Serve(ctx) })
	p.await(string(m.id), w.Ready())
}

// decide runs scheduler, API and who takes over.
func (p *pair) decide(ctx context.Context, g *errgroup.Group) {
	p.t.Helper()
	leases, err := lease.Open(p.ctx, p.js, p.names)
	p.must(err)
	p.fleet = fleet.New(fleet.Options{
		JS: p.js, Names: p.names, Records: p.records, Leases: leases, Images: p.disk, Trusted: p.trusted,
		Identities: p.identities(), Actor: "fleet@m2", Log: p.log("fleet"),
	})
	s := scheduler.New(scheduler.Options{JS: p.js, Names: p.names, Records: p.records, Log: p.log(partScheduler), Actor: "scheduler"})
	a := api.New(api.Options{
		NC: p.client, JS: p.js, Names: p.names, Records: p.records, Images: p.disk, Scheduler: s, Fleet: p.fleet,
		Recipients: []age.Recipient{p.key.Recipient()}, Trusted: p.trusted, Host: "m2", Version: "0.0.1", Log: p.log(partAPI),
	})
	for _, serve := range []func(context.Context) error{p.fleet.Serve, s.Serve, a.Serve} {
		g.Go(func() error { return serve(ctx) })
	}
	p.await(partScheduler, s.Ready())
	p.await(partAPI, a.Ready())
}

func (p *pair) await(part string, ready <-chan struct{}) {
	p.t.Helper()
	select {
	case <-ready:
	case <-time.After(limit):
		p.t.Fatalf("the %s isn't ready\n%s", part, p.logged.take())
	}
}
