package million

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// runningOf says which part of the sessions runs: one in ten. The others are
// suspended, which is what a fleet of a million looks like.
const runningOf = 10

// leaseOf says which part of the running ones someone is connected to: one in two.
const leaseOf = 2

// hosts is how many the sessions are spread over.
const hosts = 1000

// revisions is how many of each session are in the log: the janitor purges older ones.
const revisions = 2

// sealed stands for how a session is to run, encrypted: about what one with a
// dozen variables takes.
var sealed = strings.Repeat("YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgy", 30)

// nameOf gives the name of a session.
func nameOf(i int) schemas.Name {
	return schemas.Name{Tenant: schemas.Tenant(fmt.Sprintf("tenant-%03d", i%997)), Session: schemas.SessionID(fmt.Sprintf("session-%07d", i))}
}

func runs(i int) bool { return i%runningOf == 0 }

func connected(i int) bool { return i%(runningOf*leaseOf) == 0 }

// lifeOf gives the last revisions of a session, made by the transitions that it
// went through. It was suspended when all was known that was said until seq.
func lifeOf(i int, now time.Time, seq uint64) ([]schemas.SessionRecord, error) {
	n := nameOf(i)
	uid := fmt.Sprintf("%026x", rand.New(rand.NewPCG(1, uint64(i))).Uint64())
	op := func(kind string) *schemas.Op {
		return &schemas.Op{ID: "op-" + uid[:16], Kind: kind, Deadline: now.Add(10 * time.Minute)}
	}
	var rule *schemas.Idle
	if runs(i) { // on, for as long as this takes
		rule = &schemas.Idle{Grace: time.Hour.Milliseconds()}
	}
	steps := []schemas.Transition{{Type: schemas.TRun, Reason: "asked to run python3", Actor: "someone", Set: schemas.Set{
		Host: schemas.HostID(fmt.Sprintf("host-%03d", i%hosts)), Op: op(schemas.OpStart), Idle: rule,
		New: &schemas.NewSession{UID: schemas.UID(uid), Tenant: n.Tenant, Session: n.Session, Class: session.Classes()[i%3], Driver: "criu",
			MadeBy: []schemas.MadeBy{schemas.MadeByPerson, schemas.MadeByAgent}[i%2], Program: "python3", Spec: sealed, Lineage: uid},
	}}, {Type: schemas.TStarted, Reason: "it runs", Actor: "worker@host"}}
	if !runs(i) {
		steps = append(steps, schemas.Transition{Type: schemas.TSuspend, Reason: "idle for 5m0.1s, grace 5m0s", Actor: "scheduler@host", Evidence: &schemas.Evidence{Seq: seq}, Set: schemas.Set{Op: op(schemas.OpSuspend)}},
			schemas.Transition{Type: schemas.TSuspended, Reason: "its image is durable", Actor: "worker@host", Set: schemas.Set{
				Head: &schemas.Head{Name: string(n.Tenant) + "/" + uid + "/snaps/3-1", Digest: "sha256:" + uid + uid},
				Size: &schemas.Sizes{At: now, Logical: 400 << 20, New: 28 << 20, Stored: 3 << 20},
			}},
			schemas.Transition{Type: schemas.TReaped, Reason: "its processes are gone", Actor: "worker@host"})
	}
	var out []schemas.SessionRecord
	var r schemas.SessionRecord
	for k, t := range steps {
		t.ID, t.At = fmt.Sprintf("tr-%s-%d", uid[:16], k), now
		var err error
		if r, err = session.Apply(r, t); err != nil {
			return nil, fmt.Errorf("make session %s: %w", n, err)
		}
		out = append(out, r)
	}
	return out[len(out)-revisions:], nil
}

// said is one message of activity.
type said struct {
	subject string
	payload string
}

// saidOf gives the last words of a session.
func saidOf(i int) []said {
	n := nameOf(i)
	out := []said{{schemas.ActivitySubject(n, schemas.KindInput, ""), ""}, {schemas.ActivitySubject(n, schemas.KindHeartbeat, ""), `{"by":"web"}`}}
	if connected(i) {
		out = append(out, said{schemas.ActivitySubject(n, schemas.KindPresence, fmt.Sprint("c", i)), `{"ttl":"24h","by":"gateway@host"}`})
	}
	return out
}
