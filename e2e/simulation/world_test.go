package simulation

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/statekv/statekvtest"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/scheduler"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/worker"
)

// keys are what all worlds share: making them takes longer than using them.
type keys struct {
	own    lock
	signer ed25519.PrivateKey
	spec   string // sealed
}

func makeKeys(t *testing.T) keys {
	t.Helper()
	own := newLock()
	_, signer, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(schemas.Spec{Command: []string{"count"}})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal.Seal(spec, own)
	if err != nil {
		t.Fatal(err)
	}
	return keys{own, signer, sealed}
}

func (k keys) identities() []age.Identity { return []age.Identity{k.own} }

func (k keys) trusted(string, string) []ed25519.PublicKey {
	return []ed25519.PublicKey{k.signer.Public().(ed25519.PublicKey)}
}

// world is one session with all that is around it, from its start to its end.
type world struct {
	t       *testing.T
	keys    keys
	records *statekvtest.Fake
	wire    *wire
	shop    *shop
	host    *host

	mu     sync.Mutex
	random *rand.Rand

	name       schemas.Name
	uid        schemas.UID
	counted    int
	lives      []*life
	worker     *life
	scheduler  *life
	client     *life
	background sync.WaitGroup
	end        chan struct{} // closed when it is over
	told       []string      // what happened, for who has to understand it
}

func newWorld(t *testing.T, k keys, seed uint64) *world {
	w := &world{
		t: t, keys: k, records: statekvtest.New(), wire: newWire(), shop: newShop(), random: rand.New(rand.NewPCG(seed, 0)),
		name: schemas.Name{Tenant: "t", Session: "s"}, uid: "u", end: make(chan struct{}),
	}
	w.host = w.newHost()
	w.client = &life{w: w, gone: make(chan struct{})}
	return w
}

func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *world) chance(percent int) bool { return w.draw(100) < percent }

// delay is what anything takes on its way: hardly anything, as a rule.
func (w *world) delay() time.Duration {
	most := 2 * time.Millisecond
	switch n := w.draw(100); {
	case n >= 99:
		most = 20 * time.Second
	case n >= 80:
		most = 300 * time.Millisecond
	}
	return time.Duration(w.draw(int(most)) + 1)
}

func (w *world) tell(format string, args ...any) {
	w.told = append(w.told, time.Now().Format("15:04:05.000000 ")+fmt.Sprintf(format, args...))
}

func (w *world) beginWorker() {
	w.worker = w.begin(func(_ context.Context, l *life) (func(context.Context) error, <-chan struct{}) {
		p := worker.New(worker.Options{
			Host: "h", Records: records{w.records, l}, Bus: bus{w.wire, l}, Images: goods{w.shop, l},
			Drivers:    map[schemas.DriverName]driver.Driver{"fake": hands{w.host, l}},
			Identities: w.keys.identities(), Recipients: []age.Recipient{w.keys.own}, Signer: w.keys.signer, Trusted: w.keys.trusted,
			Observe: 5 * time.Minute, Sweep: 30 * time.Second,
		})
		return p.Serve, p.Ready()
	})
}

func (w *world) beginScheduler() {
	w.scheduler = w.begin(func(_ context.Context, l *life) (func(context.Context) error, <-chan struct{}) {
		s := scheduler.New(scheduler.Options{Records: records{w.records, l}, Bus: heard{bus{w.wire, l}}, Actor: "scheduler"})
		return s.Serve, s.Ready()
	})
}

// close ends everything, at any moment.
func (w *world) close() {
	close(w.end)
	for _, l := range w.lives {
		l.stop()
	}
	for _, l := range w.lives {
		<-l.done
	}
	w.background.Wait()
}

// now is the record as it stands.
func (w *world) now() statekv.Versioned {
	v, err := w.records.Get(context.Background(), w.name)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// until waits for the record to be as wanted; an hour of the world is a moment here.
func (w *world) until(what string, ok func(statekv.Versioned) bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Hour); ; time.Sleep(100 * time.Millisecond) {
		if ok(w.now()) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("the session isn't %s after an hour:\n%s", what, w.story())
		}
	}
}

// story is what happened and what the log says of it.
func (w *world) story() string {
	all := w.log()
	lines := append([]string(nil), w.told...)
	for _, v := range all {
		op := ""
		if v.Op != nil {
			op = v.Op.Kind + " " + v.Op.Claim
		}
		lines = append(lines, fmt.Sprintf("%s %3d epoch %d %s: %s (%s) %s", v.Stored.Format("15:04:05.000000"), v.Version, v.Epoch, v.Transition.Type, v.State, op, v.Transition.Reason))
	}
	i, err := w.host.Inspect(context.Background(), w.uid)
	return strings.Join(append(lines, fmt.Sprintf("on the host: %s, epoch %d (%v)", i.State, i.Epoch, err)), "\n")
}

// ask changes the record as an API does that a client has asked, if the session is
// in a state for it when it looks.
func (w *world) ask(verb string) {
	r := records{w.records, w.client}
	ctx := context.Background()
	v, err := r.Get(ctx, w.name)
	if err != nil {
		return
	}
	seq, _ := w.wire.since(0)
	op := &schemas.Op{ID: fmt.Sprint(verb, w.draw(1<<30)), Deadline: time.Now().Add(10 * time.Minute), Seq: uint64(len(seq))}
	t := schemas.Transition{Reason: "asked to " + verb, Actor: "client", Op: op.ID, Set: schemas.Set{Op: op}}
	free := v.State == schemas.Running && v.Op == nil
	switch {
	case verb == "suspend" && free:
		t.Type, op.Kind, op.Trigger = schemas.TSuspend, schemas.OpSuspend, "manual"
	case verb == "checkpoint" && free:
		t.Type, op.Kind, op.Trigger = schemas.TCheckpoint, schemas.OpCheckpoint, "manual"
	case verb == "resume" && v.State == schemas.Suspended && v.Op == nil:
		t.Type, op.Kind, op.Source, op.Boot = schemas.TResume, schemas.OpResume, v.Head, session.BootOf(v.SessionRecord)
	default:
		return
	}
	if _, err := r.Swap(ctx, v, t); err != nil && !errors.Is(err, statekv.ErrConflict) {
		w.host.Complain("%s: %v", verb, err)
	}
}
