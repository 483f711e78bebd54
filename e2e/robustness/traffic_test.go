package robustness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// publishing is how long a client waits for the stream.
const publishing = 4 * time.Second

// traffic is what the clients share.
type traffic struct {
	f      *machines
	strict bool
	start  time.Time
	said   io.Writer // what the parts log

	programs *programs // nil with fakes

	mu      sync.Mutex
	slots   []*slot
	history []porcupine.Operation
	answers []schemas.View // of what was acknowledged
}

// slot is a place for one session at a time. Its name is left for a new one when
// an operation may still have an effect at any time, or it has served enough.
type slot struct {
	number, turn int
	name         schemas.Name
	uid          schemas.UID // the last that is known
	empty        bool        // by the last answer
	snapshots    []string
	served       int
}

// turns is how many operations a name serves: what porcupine has to try grows
// with it.
const turns = 250

func newTraffic(f *machines, slots int) *traffic {
	tr := &traffic{f: f, strict: f.cluster.Size() == 1, start: time.Now()}
	for i := range slots {
		s := &slot{number: i}
		s.renew()
		tr.slots = append(tr.slots, s)
	}
	return tr
}

func (s *slot) renew() {
	s.turn++
	s.name = schemas.Name{Tenant: "default", Session: schemas.SessionID(fmt.Sprintf("s%d-%d", s.number, s.turn))}
	s.uid, s.empty, s.snapshots, s.served = "", true, nil, 0
}

// enoughOf is how many operations make a history: clients go on until there are so many. The
// steps of real sessions aren't among them.
func (tr *traffic) enoughOf() int {
	if tr.programs != nil {
		return 60
	}
	return 300
}

// patience is how long a client waits for an answer.
func (tr *traffic) patience() time.Duration {
	if tr.programs != nil {
		return 15 * time.Second
	}
	return 4 * time.Second
}

// client is one user.
type client struct {
	tr     *traffic
	number int
	rand   *rand.Rand
	nc     *nats.Conn
	js     jetstream.JetStream
}

// weights say how often each operation is asked for.
var weights = []struct {
	verb string
	n    int
}{
	{opCount, 34}, {opSuspend, 12}, {opEnsure, 14}, {opResume, 4}, {opTouch, 8}, {opShow, 8}, {opCheckpoint, 7},
	{opRollback, 5}, {opRemove, 3}, {opKill, 2}, {opClean, 3}, {opRun, 2},
}

func (c *client) serve(ctx context.Context) {
	for ctx.Err() == nil {
		in, uid := c.next()
		wait := time.Duration(c.rand.IntN(12)) * time.Millisecond
		if out := c.do(in, uid); away(schemas.Reason(out.Reason)) {
			wait *= 20
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// away reports whether an error says that the API or its records can't be reached: asking
// faster shows nothing more.
func away(why schemas.Reason) bool {
	return why == schemas.ReasonNoServer || why == schemas.ReasonUnread || why == schemas.ReasonStopping
}

// next draws an operation, and takes a turn of the slot that it is for.
func (c *client) next() (input, schemas.UID) {
	c.tr.mu.Lock()
	defer c.tr.mu.Unlock()
	s := c.tr.slots[c.rand.IntN(len(c.tr.slots))]
	in := input{Session: s.name.String(), Verb: c.draw(), Strict: c.tr.strict}
	if s.empty && c.rand.IntN(3) > 0 {
		in.Verb = opRun
	}
	if in.Verb == opRollback {
		if len(s.snapshots) == 0 {
			in.Verb = opCheckpoint
		} else {
			in.Snapshot = s.snapshots[c.rand.IntN(len(s.snapshots))]
		}
	}
	uid := s.uid
	if s.served++; s.served >= turns && s.empty {
		s.renew()
	}
	return in, uid
}

func (c *client) draw() string {
	total := 0
	for _, w := range weights {
		total += w.n
	}
	n := c.rand.IntN(total)
	for _, w := range weights {
		if n -= w.n; n < 0 {
			return w.verb
		}
	}
	return opCount
}

// do carries out one operation and keeps what came of it.
func (c *client) do(in input, uid schemas.UID) output {
	call := c.tr.now()
	out, view := c.carryOut(in, uid)
	if in.Verb != opCount || c.tr.programs == nil { // whose steps the witness keeps
		c.tr.keep(c.number, in, out, call, c.tr.now())
	}
	c.tr.learn(in, out, view)
	return out
}

// now is the time of the history, in nanoseconds.
func (tr *traffic) now() int64 { return time.Since(tr.start).Nanoseconds() }

func (c *client) carryOut(in input, uid schemas.UID) (output, *schemas.View) {
	switch in.Verb {
	case opCount:
		n, ran := c.tr.count(in, uid)
		if !ran {
			return output{}, nil // it doesn't run now: nothing happened
		}
		return output{Outcome: ok, UID: string(uid), Count: n}, nil
	case opTouch:
		c.touch(in)
		return output{}, nil
	}
	var v schemas.View
	if err := c.ask(in, &v); err != nil {
		return output{Outcome: judge(in, err), Reason: string(reason(err)), Text: err.Error()}, nil
	}
	out := output{Outcome: ok, UID: string(v.UID), State: string(v.State)}
	if v.Snapshot != nil && (in.Verb == opCheckpoint || in.Verb == opSuspend && in.Strict) {
		out.Snapshot = v.Snapshot.ID
	}
	return out, &v
}

// count has a session count one, or waits for a real one to do so.
func (tr *traffic) count(in input, uid schemas.UID) (n int, ran bool) {
	if tr.programs == nil {
		return tr.f.count(uid)
	}
	name, err := schemas.ParseName(in.Session)
	tr.f.must(err)
	ctx, cancel := context.WithTimeout(context.Background(), publishing)
	defer cancel()
	v, err := tr.f.records.Get(ctx, name)
	if err != nil {
		return 0, false
	}
	return tr.programs.witness.next(v.Program, stepWait)
}

// stepWait is how long a real session may take for a step before it counts as one that stands still.
const stepWait = 500 * time.Millisecond

func (c *client) touch(in input) {
	name, err := schemas.ParseName(in.Session)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishing)
	defer cancel()
	kinds := []schemas.Kind{schemas.KindInput, schemas.KindHeartbeat, schemas.KindOutput}
	// Whether it arrives makes no difference to what a session counts.
	_, _ = stream.Publisher{JS: c.js}.Activity(ctx, name, kinds[c.rand.IntN(len(kinds))], "", schemas.Activity{})
}

func (c *client) ask(in input, out any) error {
	verb, req := in.Verb, schemas.Request{Name: in.Session, Wait: schemas.Duration(c.tr.patience()), Snapshot: in.Snapshot}
	switch verb {
	case opClean:
		verb, req.Clean = opResume, true
	case opRun:
		run, of, graces := "count", schemas.Spec{Command: []string{"count"}}, []int64{30, 200, 1000, 60_000}
		if p := c.tr.programs; p != nil {
			run, graces = fmt.Sprint("run-", p.runs.Add(1)), []int64{1000, 3000, 60_000}
			of = p.witness.spec(run)
		}
		spec, err := json.Marshal(of)
		if err != nil {
			return err
		}
		req.Run = &schemas.RunRequest{Program: run, Spec: spec, Idle: &schemas.Idle{Grace: graces[c.rand.IntN(len(graces))]}}
	}
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	msg, err := c.nc.Request(schemas.SubjectAPI+"."+verb, data, c.tr.patience()+time.Second)
	if err != nil {
		return err
	}
	return events.ReadAnswer(msg, out)
}

// changes reports whether a verb changes what a session counts to: what isn't
// known of it may happen at any time.
func changes(verb string) bool {
	return verb == opRun || verb == opRollback || verb == opClean || verb == opKill || verb == opRemove
}

// judge says what an error means. Only what surely had no effect is refused.
func judge(in input, err error) string {
	switch why := reason(err); {
	case schemas.CodeOf(err) == schemas.CodeNoSession:
		return gone
	case in.Verb == opRun && why == schemas.ReasonExists:
		return exists
	case schemas.CodeOf(err) == schemas.CodeUsage, slices.Contains(unchanged, why):
		return refused
	case schemas.CodeOf(err) != "" && !changes(in.Verb):
		return refused
	case in.Verb == opRollback && why == schemas.ReasonRunsOn:
		return refused // it couldn't be suspended, which comes first
	}
	return unknown
}

// unchanged are the reasons of errors after which nothing was changed.
var unchanged = []schemas.Reason{
	schemas.ReasonNoServer, schemas.ReasonUnread, schemas.ReasonNoHost, schemas.ReasonNoRoom,
	schemas.ReasonBusy, schemas.ReasonConflict, schemas.ReasonWrongState,
}

// reason gives an error's, and that of an API that isn't there.
func reason(err error) schemas.Reason {
	if errors.Is(err, nats.ErrNoResponders) {
		return schemas.ReasonNoServer
	}
	return schemas.ReasonOf(err)
}

// keep adds an operation to the history. One whose outcome isn't known has no end,
// unless it makes no difference.
func (tr *traffic) keep(client int, in input, out output, call, end int64) {
	if out.Outcome == "" || out.Outcome == unknown && !changes(in.Verb) {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if out.Outcome == unknown {
		end = never
	}
	tr.history = append(tr.history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
}

const never = int64(1) << 62

// learn remembers what a client now knows of the slot's session.
func (tr *traffic) learn(in input, out output, v *schemas.View) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if v != nil && v.LastTransition.Type != "" {
		tr.answers = append(tr.answers, *v)
	}
	var s *slot
	for _, candidate := range tr.slots {
		if candidate.name.String() == in.Session {
			s = candidate
		}
	}
	switch {
	case s == nil: // it has a new name since
	case out.Outcome == unknown && changes(in.Verb):
		s.renew()
	case out.Outcome == gone, out.Outcome == ok && in.Verb == opRemove:
		s.empty, s.snapshots = true, nil
	case out.Outcome == exists:
		s.empty = false
	case out.Outcome == ok && in.Verb != opCount:
		if s.uid != schemas.UID(out.UID) {
			s.snapshots = nil
		}
		s.uid, s.empty = schemas.UID(out.UID), false
		if out.Snapshot != "" {
			s.snapshots = append(s.snapshots, out.Snapshot)
		}
	}
}
