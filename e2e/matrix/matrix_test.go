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

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/api"
	"github.com/diapause/diapause/workers/driver"
)

// trial is one case of the matrix on its lane.
type trial struct {
	l      *lane
	verb   verb
	moment moment
	fault  fault
	name   string // of its session
	copy   string // of a fork of it

	counted int // what the session has counted to
	hit     chan struct{}
	release chan struct{} // closed to end a pause
	answer  chan error    // of act
	hangUp  context.CancelFunc
}

func (c *trial) String() string {
	return fmt.Sprintf("%s, at %s (%d), %s", c.verb.name, c.moment.Name, c.moment.nth, c.fault.name)
}

func (c *trial) id() schemas.Name {
	return schemas.Name{Tenant: "default", Session: schemas.SessionID(c.name)}
}

// share is of how many cases one is tried, if not all are: each moment with one of
// what goes wrong, and each of that in every verb of some length.
const share = 6

// cases are all of the matrix, or a share of it that begins at from.
func cases(from, share int) (all []*trial) {
	for _, v := range verbs() {
		for i, m := range v.moments {
			for j, f := range faults() {
				if (f.fits == nil || f.fits(v)) && (i+j+from)%share == 0 {
					n := fmt.Sprint("s", len(all))
					all = append(all, &trial{verb: v, moment: m, fault: f, name: n, copy: n + "-copy"})
				}
			}
		}
	}
	return all
}

// lanes is how many machines there are, side by side.
const lanes = 4

// Every moment, in everything that is asked of a session, with everything that goes
// wrong there: a sixth of it, drawn by DIAPAUSE_SEED, or with DIAPAUSE_LONG=1 all.
// DIAPAUSE_MATRIX=text runs the cases alone whose name has it.
func TestMatrix(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("DIAPAUSE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("DIAPAUSE_SEED: %v", err)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	all, only := cases(random.IntN(share), share), os.Getenv("DIAPAUSE_MATRIX")
	if os.Getenv("DIAPAUSE_LONG") != "" || only != "" {
		all = cases(0, 1)
	}
	t.Logf("%d cases, drawn by DIAPAUSE_SEED=%d", len(all), seed)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if only != "" {
		all = slices.DeleteFunc(all, func(c *trial) bool { return !strings.Contains(c.String(), only) })
	}
	for i := range lanes {
		t.Run(fmt.Sprint("lane ", i), func(t *testing.T) {
			t.Parallel()
			l := newLane(t)
			for j := i; j < len(all); j += lanes {
				if err := all[j].run(l); err != nil {
					t.Fatalf("%s: %v\n%s\n%s", all[j], err, all[j].story(), l.logged.take())
				}
			}
			var a api.Audit
			if err := l.ask(l.ctx, "audit", schemas.Request{}, &a); err != nil || len(a.Problems) > 0 {
				t.Errorf("the audit finds %v, %v", a.Problems, err)
			}
		})
	}
}

// Every moment that isn't a real driver's is in the matrix.
func TestMatrixIsWhole(t *testing.T) {
	in := map[failpoint.Name]bool{}
	for _, v := range verbs() {
		for _, m := range v.moments {
			in[m.Name] = true
		}
	}
	for _, n := range failpoint.Names() {
		if part := partOf(n); !in[n] && part != "criu" && part != "shim" && part != "docker" && part != "recording" {
			t.Errorf("%s is never tried", n)
		}
	}
}

func (c *trial) run(l *lane) error {
	c.l = l
	l.logged.take()
	if err := c.prepare(); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if err := c.strike(); err != nil {
		return err
	}
	if c.verb.name == "idle" { // or it would be suspended again and again
		if err := c.rule(schemas.Idle{Never: true}); err != nil {
			return err
		}
	}
	if err := c.fault.then(c); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if broken := l.guard.Complaints(); len(broken) > 0 {
		return errors.New(strings.Join(broken, "\n"))
	}
	return nil
}

// prepare brings the session to where the verb begins.
func (c *trial) prepare() error {
	if c.verb.from == "" {
		return nil
	}
	if err := c.l.do("run", runRequest(c.name)); err != nil {
		return err
	}
	if err := c.counts(c.name, 1); err != nil {
		return err
	}
	c.counted = 1
	if c.verb.from == schemas.Suspended {
		return c.l.do("suspend", schemas.Request{Name: c.name})
	}
	return nil
}

// arm has do called at a moment, counted from now.
func (c *trial) arm(m moment, do func(context.Context) error) error {
	return c.l.points.Arm(m.Name, c.l.points.Reached(m.Name)+m.nth, do)
}

// strike begins the verb and waits until the moment is there.
func (c *trial) strike() error {
	c.hit, c.release, c.answer = make(chan struct{}), make(chan struct{}), make(chan error, 1)
	if c.verb.extra != nil {
		if err := c.verb.extra(c); err != nil {
			return err
		}
	}
	err := c.arm(c.moment, func(ctx context.Context) error {
		if c.fault.at == nil {
			close(c.hit)
			<-c.release
			return nil
		}
		defer close(c.hit)
		return c.fault.at(ctx, c)
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.l.ctx)
	c.hangUp = cancel
	go func() { c.answer <- c.verb.act(ctx, c) }()
	select {
	case <-c.hit:
		return nil
	case <-time.After(limit):
		return errors.New("the moment doesn't come")
	}
}

// answered waits for the verb's answer, a refusal or not.
func (c *trial) answered(within time.Duration) error {
	defer c.hangUp()
	select {
	case <-c.answer:
		return nil
	case <-time.After(within):
		return errors.New("the verb isn't answered")
	}
}

var errNone = errors.New("there is no such session")

// rule changes the session's idle rule and nothing else, also during an operation.
func (c *trial) rule(i schemas.Idle) error {
	_, err := c.l.records.Update(c.l.ctx, c.id(), func(r schemas.SessionRecord) (schemas.Transition, bool, error) {
		if r.UID == "" || r.State == schemas.Deleted {
			return schemas.Transition{}, false, errNone
		}
		return schemas.Transition{Type: schemas.TIdleRule, Reason: "test", Actor: "test", Set: schemas.Set{Idle: &i}}, true, nil
	})
	if errors.Is(err, statekv.ErrNoSession) {
		return errNone
	}
	return err
}

// until waits for the record to be as wanted.
func (c *trial) until(what string, ok func(schemas.SessionRecord) bool) (schemas.SessionRecord, error) {
	return c.untilOf(c.name, what, ok)
}

func (c *trial) untilOf(name, what string, ok func(schemas.SessionRecord) bool) (schemas.SessionRecord, error) {
	var last schemas.SessionRecord
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		var v statekv.Versioned
		v, err = c.l.records.Get(c.l.ctx, schemas.Name{Tenant: "default", Session: schemas.SessionID(name)})
		if errors.Is(err, statekv.ErrNoSession) {
			err = nil
		}
		if last = v.SessionRecord; err == nil && ok(last) {
			return last, nil
		}
	}
	return last, fmt.Errorf("session %s is %s after %s (%s), not %s; %v", name, last.State, last.Transition.Type, last.Transition.Reason, what, err)
}

func resting(r schemas.SessionRecord) bool {
	return r.Op == nil && r.State != schemas.Starting && r.State != schemas.Suspending && r.State != schemas.Resuming
}

// counts has the session count one, and wants to see n.
func (c *trial) counts(name string, n int) error {
	r, err := c.untilOf(name, "running", func(r schemas.SessionRecord) bool { return r.State == schemas.Running })
	if err != nil {
		return err
	}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if got, ok := c.l.guard.Count(r.UID); ok && got == n {
			return nil
		} else if ok {
			return fmt.Errorf("session %s counts to %d where %d is next", name, got, n)
		}
	}
	return fmt.Errorf("session %s doesn't run", name)
}

// check wants what the verb may leave, uses it, and removes it.
func (c *trial) check() error {
	r, err := c.until("at rest", func(r schemas.SessionRecord) bool {
		return resting(r) || r.State == schemas.Deleted && r.Transition.Type == schemas.TDeferred
	})
	if err != nil {
		return err
	}
	switch {
	case c.fault.removes && r.State != schemas.Deleted && r.UID != "":
		return fmt.Errorf("it is %s, and was deleted", r.State)
	case r.State == schemas.Deleted && !c.fault.removes && c.verb.end != mustGo && c.verb.end != mayBorn:
		return errors.New("it is deleted, and no client asked for it")
	case c.verb.end == mayBorn && (r.UID == "" || r.State == schemas.Deleted):
		err = c.l.do("run", runRequest(c.name))
		if err == nil {
			err = c.counts(c.name, 1)
		}
	case c.verb.end == mayBorn && r.State == schemas.Running:
		err = c.counts(c.name, 1)
	case c.verb.end == goesOn && !c.fault.removes:
		err = c.goOn()
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(c.verb.name, "fork") {
		if err := c.checkCopy(); err != nil {
			return fmt.Errorf("the fork: %w", err)
		}
	}
	return c.gone(c.name)
}

// goOn uses the session: where it was, there it goes on, and it can be suspended
// and resumed as ever.
func (c *trial) goOn() error {
	if c.fault.wakes {
		if _, err := c.until("running again", func(r schemas.SessionRecord) bool { return r.State == schemas.Running && r.Op == nil }); err != nil {
			return err
		}
	}
	for i := 1; i <= 2; i++ {
		if err := c.l.do("ensure", schemas.Request{Name: c.name}); err != nil {
			return err
		}
		if err := c.counts(c.name, c.counted+i); err != nil {
			return err
		}
		if i == 1 {
			if err := c.l.do("suspend", schemas.Request{Name: c.name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkCopy uses a fork, if there is one, and removes it.
func (c *trial) checkCopy() error {
	r, err := c.untilOf(c.copy, "at rest", resting)
	if err != nil {
		return err
	}
	if r.UID == "" {
		return nil
	}
	if r.State != schemas.Deleted && r.State != schemas.Failed {
		if err := c.l.do("ensure", schemas.Request{Name: c.copy}); err != nil {
			return err
		}
		if err := c.counts(c.copy, c.counted+1); err != nil {
			return err
		}
	}
	return c.gone(c.copy)
}

// gone removes the session and looks that nothing of it is left.
func (c *trial) gone(name string) error {
	var refused *schemas.APIError
	if err := c.l.do("rm", schemas.Request{Name: name}); err != nil && !(errors.As(err, &refused) && refused.Code == schemas.CodeNoSession) {
		return err
	}
	r, err := c.untilOf(name, "removed", func(r schemas.SessionRecord) bool { return r.UID == "" || r.State == schemas.Deleted && r.Op == nil })
	if err != nil || r.UID == "" {
		return err
	}
	if i, err := c.l.guard.Inspect(c.l.ctx, r.UID); !errors.Is(err, driver.ErrNotHere) {
		return fmt.Errorf("its processes are left, %s (%v)", i.State, err)
	}
	return c.l.disk.List(c.l.ctx, "default/"+r.Lineage+"/", func(o objectstore.Info) error {
		return fmt.Errorf("object %s is left", o.Name)
	})
}

// story is what the log says of the session and its copy.
func (c *trial) story() string {
	var lines []string
	for _, name := range []string{c.name, c.copy} {
		all, err := c.l.records.History(c.l.ctx, schemas.Name{Tenant: "default", Session: schemas.SessionID(name)})
		for _, v := range all {
			op := ""
			if v.Op != nil {
				op = v.Op.Kind + " " + v.Op.Claim
			}
			lines = append(lines, fmt.Sprintf("%s %3d epoch %d %s: %s (%s) %s", name, v.Version, v.Epoch, v.Transition.Type, v.State, op, v.Transition.Reason))
		}
		if err != nil && !errors.Is(err, statekv.ErrNoSession) {
			lines = append(lines, err.Error())
		}
	}
	return strings.Join(lines, "\n")
}
