package matrix

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/workers/driver"
)

// pauses are the cases: every moment of a worker, in all that is asked of a session.
func pauses() (all []*trial) {
	for _, v := range verbs() {
		if v.extra != nil || v.name == "idle" || v.name == "wake" { // workers do the same for others
			continue
		}
		for _, m := range v.moments {
			if partOf(m.Name) == partWorker {
				n := fmt.Sprint("p", len(all))
				all = append(all, &trial{verb: v, moment: m, fault: fault{name: "a pause past the lease"}, name: n, copy: n + "-copy"})
			}
		}
	}
	return all
}

// Worker after worker stops, at every moment in everything that is asked of a session, for
// longer than its host's lease: others go on with the session meanwhile, and when the worker
// does, it runs once, from no earlier than its last snapshot, and nothing of it is left over.
// DIAPAUSE_SEED gives their order, DIAPAUSE_MATRIX=text runs the cases alone whose name has it.
func TestPausedPastTheLease(t *testing.T) {
	only := os.Getenv("DIAPAUSE_MATRIX")
	if os.Getenv("DIAPAUSE_LONG") == "" && only == "" {
		return // it runs with make test-long
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("DIAPAUSE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("DIAPAUSE_SEED: %v", err)
		}
	}
	all := pauses()
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if only != "" {
		all = slices.DeleteFunc(all, func(c *trial) bool { return !strings.Contains(c.String(), only) })
	}
	t.Logf("%d cases, drawn by DIAPAUSE_SEED=%d", len(all), seed)
	const pairs = 10
	var g errgroup.Group
	for i := range min(pairs, len(all)) {
		p := newPair(t)
		g.Go(func() error { // most of the time they wait
			for j := i; j < len(all); j += pairs {
				if err := p.try(all[j]); err != nil {
					return fmt.Errorf("%s: %w\n%s\n%s", all[j], err, all[j].story(), p.logged.take())
				}
			}
			var a api.Audit
			if err := p.ask(p.ctx, "audit", schemas.Request{}, &a); err != nil || len(a.Problems) > 0 {
				return fmt.Errorf("the audit finds %v, %v", a.Problems, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func (p *pair) try(c *trial) error {
	c.l = p.lane
	p.logged.take()
	if err := p.prepare(c); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	hit, err := p.strike(c)
	if err != nil {
		return err
	}
	defer hit.goOn()
	err = p.goneOnWithout(hit, c)
	hit.goOn()
	if err == nil {
		err = errors.Join(c.answered(limit), p.awaitGone(hit, false))
	}
	for _, name := range []string{c.copy, c.name} { // a copy that has no image of its own needs the other's
		if err == nil {
			err = p.check(c, name)
		}
	}
	for _, m := range p.machines {
		if broken := m.guard.Complaints(); len(broken) > 0 {
			err = errors.Join(err, errors.New(strings.Join(broken, "\n")))
		}
	}
	return err
}

// prepare brings the session to where the verb begins. It has a snapshot, and has counted
// on since.
func (p *pair) prepare(c *trial) error {
	if c.verb.from == "" {
		return nil
	}
	run := runRequest(c.name)
	run.Run.OnLoss = schemas.LossResume
	if err := p.insist("run", run); err != nil {
		return err
	}
	if _, err := p.count(c.name, 0); err != nil {
		return err
	}
	if err := p.insist("checkpoint", schemas.Request{Name: c.name}); err != nil {
		return err
	}
	var err error
	if c.counted, err = p.count(c.name, 0); err == nil && c.verb.from == schemas.Suspended {
		err = p.insist("suspend", schemas.Request{Name: c.name})
	}
	return err
}

// subject is the session that the verb's moment is of.
func (c *trial) subject() string {
	if strings.HasPrefix(c.verb.name, "fork") && (c.moment.nth == 2 || c.verb.from == schemas.Suspended || slices.Contains(restoring, c.moment.Name)) {
		return c.copy
	}
	return c.name
}

// strike begins the verb and stops the worker that comes to the moment.
func (p *pair) strike(c *trial) (*machine, error) {
	c.answer = make(chan error, 1)
	hit := make(chan *machine, 1)
	err := c.arm(c.moment, func(context.Context) error {
		r, err := c.untilOf(c.subject(), "some host's", func(r schemas.SessionRecord) bool { return r.Host != "" })
		if err != nil {
			return err
		}
		m := p.machines[slices.IndexFunc(p.machines[:], func(m *machine) bool { return m.id == r.Host })]
		m.stop()
		hit <- m
		m.step()
		return nil
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(p.ctx)
	c.hangUp = cancel
	go func() { c.answer <- c.verb.act(ctx, c) }()
	select {
	case m := <-hit:
		return m, nil
	case <-time.After(limit):
		return nil, errors.New("the moment doesn't come")
	}
}

// goneOnWithout waits until a stopped machine counts as gone, and what can go on elsewhere
// does.
func (p *pair) goneOnWithout(m *machine, c *trial) error {
	if err := p.awaitGone(m, true); err != nil || c.verb.end != goesOn {
		return err
	}
	for _, name := range []string{c.name, c.copy} {
		if err := p.elsewhere(name, m); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) awaitGone(m *machine, want bool) error {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, gone := p.fleet.Gone(m.id); gone == want {
			return nil
		}
	}
	return fmt.Errorf("that host %s is gone should be %v", m.id, want)
}

// elsewhere asks for a session, if it is there, until it runs on another machine.
func (p *pair) elsewhere(name string, than *machine) error {
	var r schemas.SessionRecord
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		v, err := p.records.Get(p.ctx, schemas.Name{Tenant: "default", Session: schemas.SessionID(name)})
		if r = v.SessionRecord; err != nil && r.UID == "" && strings.HasSuffix(name, "-copy") {
			return nil
		}
		if err == nil && r.State == schemas.Running && (r.Host != than.id || r.OnLoss != schemas.LossResume) {
			return nil // or it waits for its host
		}
		ctx, cancel := context.WithTimeout(p.ctx, time.Second)
		var out any
		_ = p.ask(ctx, "ensure", schemas.Request{Name: name}, &out)
		cancel()
	}
	return fmt.Errorf("session %s is %s on %s after %s (%s), and doesn't go on elsewhere", name, r.State, r.Host, r.Transition.Type, r.Transition.Reason)
}

// count has a session count one, wherever it runs, and gives what it counted to: want, unless
// that is 0. It runs once, and not behind its snapshot.
func (p *pair) count(name string, want int) (int, error) {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		v, err := p.records.Get(p.ctx, schemas.Name{Tenant: "default", Session: schemas.SessionID(name)})
		if err != nil || v.State != schemas.Running {
			continue
		}
		n, live := 0, 0
		for _, m := range p.machines {
			if got, ok := m.guard.Count(v.UID); ok {
				n, live = got, live+1
			}
		}
		switch {
		case live > 1:
			return n, fmt.Errorf("session %s runs on both machines", name)
		case live == 0:
			continue
		case want != 0 && n != want:
			return n, fmt.Errorf("session %s counts to %d where %d is next", name, n, want)
		}
		return n, nil
	}
	return 0, fmt.Errorf("session %s doesn't run", name)
}

// check wants what the verb may leave of a session: it is there once, or its image is;
// used and removed it leaves nothing.
func (p *pair) check(c *trial, name string) error {
	r, err := c.untilOf(name, "at rest", resting)
	if err != nil || r.UID == "" {
		return err
	}
	if r.State == schemas.Running || r.State == schemas.Suspended {
		if err := p.use(c, name); err != nil {
			return err
		}
	} else if c.verb.end == goesOn {
		return fmt.Errorf("session %s is %s: %s", name, r.State, r.Transition.Reason)
	}
	var refused *schemas.APIError
	if err := p.insist("rm", schemas.Request{Name: name}); err != nil && !(errors.As(err, &refused) && refused.Code == schemas.CodeNoSession) {
		return err
	}
	if _, err := c.untilOf(name, "removed", func(r schemas.SessionRecord) bool { return r.State == schemas.Deleted && r.Op == nil }); err != nil {
		return err
	}
	if err := p.trees(r, 0); err != nil {
		return err
	}
	return p.disk.List(p.ctx, "default/"+r.Lineage+"/", func(o objectstore.Info) error {
		return fmt.Errorf("object %s is left", o.Name)
	})
}

// use has a session count on, from its snapshot or later, sleep, and count on.
func (p *pair) use(c *trial, name string) error {
	if err := p.insist("ensure", schemas.Request{Name: name}); err != nil {
		return err
	}
	n, err := p.count(name, 0)
	if err != nil {
		return err
	}
	r, err := c.untilOf(name, "running", func(r schemas.SessionRecord) bool { return r.State == schemas.Running && r.Op == nil })
	if err != nil {
		return err
	}
	if err := p.trees(r, 1); err != nil {
		return err
	}
	if r.Head != nil {
		if kept, err := p.kept(*r.Head); err != nil || n <= kept || n > c.counted+1 {
			return fmt.Errorf("session %s counts to %d, its snapshot had %d, and it %d: %v", name, n, kept, c.counted, err)
		}
	}
	if err := p.insist("suspend", schemas.Request{Name: name}); err != nil {
		return err
	}
	v, err := p.records.Get(p.ctx, r.Name())
	if err != nil {
		return err
	}
	kept, err := p.kept(*v.Head)
	if err != nil || kept != n && !p.takenOver(r) {
		return fmt.Errorf("session %s had counted to %d, and its image says %d: %v", name, n, kept, err)
	}
	if err := p.insist("ensure", schemas.Request{Name: name}); err != nil {
		return err
	}
	_, err = p.count(name, kept+1)
	return err
}

// takenOver reports whether a session was taken over since: on a busy machine a lease may run
// out that no one stopped.
func (p *pair) takenOver(since schemas.SessionRecord) bool {
	all, err := p.records.History(p.ctx, since.Name())
	return err == nil && slices.ContainsFunc(all, func(v statekv.Versioned) bool {
		return v.Version > since.Version && v.Transition.Type == schemas.TTakenOver
	})
}

// insist asks for a verb until it works, or there is no such session.
func (p *pair) insist(verb string, req schemas.Request) error {
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var out any
		var refused *schemas.APIError
		if err = p.ask(p.ctx, verb, req, &out); err == nil || errors.As(err, &refused) && refused.Code == schemas.CodeNoSession {
			return err
		}
	}
	return fmt.Errorf("%s %s: %w", verb, req.Name, err)
}

// trees waits until a session has so many trees on all machines, frozen ones too.
func (p *pair) trees(r schemas.SessionRecord, want int) error {
	n := 0
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		n = 0
		for _, m := range p.machines {
			if i, err := m.guard.Inspect(p.ctx, r.UID); err == nil && i.State != driver.Exited {
				n++
			}
		}
		if n == want {
			return nil
		}
	}
	return fmt.Errorf("session %s has %d trees, want %d", r.Name(), n, want)
}
