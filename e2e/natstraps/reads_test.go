package natstraps_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/e2e/natscluster"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// A leader that is cut off from the others answers reads with the past until it
// notices, some ten seconds later, while its successor takes writes. A worker that
// believed it would thaw what an image has replaced, or kill what was resumed. So
// nothing is done on a read alone, and a store never believes an answer older than
// what it has seen itself.
func TestADeposedLeaderAnswersWithThePast(t *testing.T) {
	t.Parallel()
	c, _ := three(t)
	for round := range 5 {
		if deposed(t, c, round == 0) {
			return
		}
	}
	t.Error("the trap is gone: in five rounds no deposed leader answered with the past")
}

// deposed cuts the leader of the records off, and reports whether it went on
// answering when its successor had stored a newer record.
func deposed(t *testing.T, c *natscluster.Cluster, first bool) (seen bool) {
	t.Helper()
	c.AwaitCurrent(names.SessionStream())
	leader := c.Leader(names.SessionStream())
	_, theirs := connect(t, c.Door(leader))
	door := c.Door()
	door.To(leader).Cut()
	_, js := connect(t, door)
	mine, deceived := records(t, js), records(t, theirs)
	was := current(t, mine, first)
	for _, k := range c.Routes(leader) {
		k.Cut()
	}
	// The swap goes on until the others have chosen a new leader.
	now := swap(t, mine, was, schemas.Transition{Type: schemas.TIdleRule})
	if v, err := get(t, deceived); err == nil && v.Version < now.Version {
		seen = true
	}
	for i := range c.Size() {
		if i != leader {
			door.To(i).Cut()
		}
	}
	door.To(leader).Heal()
	until(t, "the client is at the deposed leader", func() bool {
		return js.Conn().ConnectedUrl() == "nats://"+door.To(leader).Addr() && js.Conn().FlushTimeout(time.Second) == nil
	})
	if v, err := get(t, mine); err == nil && v.Version < now.Version {
		t.Errorf("a store that wrote version %d reads version %d", now.Version, v.Version)
	}
	c.HealAll()
	until(t, "the store reads again", func() bool { v, err := get(t, mine); return err == nil && v.Version == now.Version })
	return seen
}

// current gives the record to go on from: a new one in the first round.
func current(t *testing.T, s *statekv.Store, first bool) statekv.Versioned {
	t.Helper()
	if first {
		return swap(t, s, statekvNone, newSession())
	}
	return read(t, s)
}

// read reads as soon as someone answers.
func read(t *testing.T, s *statekv.Store) (v statekv.Versioned) {
	t.Helper()
	until(t, "the record can be read", func() bool {
		var err error
		v, err = get(t, s)
		return err == nil
	})
	return v
}

func get(t *testing.T, s *statekv.Store) (statekv.Versioned, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	return s.Get(ctx, work)
}

// Direct reads come from any replica, however far behind: on a stream that allows
// them one that is cut off answers for ever, not for ten seconds. Ours have none,
// and say so to who asks.
func TestDirectReadsAnswerFromAnyReplica(t *testing.T) {
	t.Parallel()
	c, js := three(t)
	ctx := t.Context()
	until(t, "a stream is made", func() bool {
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "DIRECT", Subjects: []string{"direct"}, Replicas: 3, AllowDirect: true, MaxMsgsPerSubject: 1})
		return err == nil
	})
	c.AwaitCurrent("DIRECT", names.SessionStream())
	until(t, "the old word is stored", func() bool { _, err := js.Publish(ctx, "direct", []byte("old")); return err == nil })
	c.AwaitCurrent("DIRECT")
	behind := (c.Leader("DIRECT") + 1) % c.Size()
	_, theirs := connect(t, c.Door(behind))
	var stream jetstream.Stream
	until(t, "the stream is found", func() (ok bool) {
		var err error
		stream, err = theirs.Stream(ctx, "DIRECT")
		return err == nil
	})
	door := c.Door()
	door.To(behind).Cut()
	_, js = connect(t, door)
	for _, k := range c.Routes(behind) {
		k.Cut()
	}
	until(t, "the others store the new word", func() bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, "direct", []byte("new"))
		return err == nil
	})
	until(t, "the trap is gone: a replica that is cut off doesn't answer a direct read", func() bool {
		msg, err := stream.GetLastMsgForSubject(ctx, "direct")
		return err == nil && string(msg.Data) == "old"
	})
	c.HealAll()
	c.AwaitCurrent(names.SessionStream(), names.KeyStream(), names.Activity())
	for _, name := range []string{names.SessionStream(), names.KeyStream(), names.Activity()} {
		until(t, "stream "+name+" is found", func() bool {
			s, err := js.Stream(ctx, name)
			if err == nil && s.CachedInfo().Config.AllowDirect {
				t.Errorf("%s allows direct reads", name)
			}
			return err == nil
		})
	}
}

// A majority that is gone makes a write neither done nor refused. Anyone who gave up
// on it may find it done later: a swap says that it doesn't know.
func TestAWriteWithoutAMajority(t *testing.T) {
	t.Parallel()
	c, js := three(t)
	s := records(t, js)
	first := swap(t, s, statekvNone, newSession())
	leader := c.Leader(names.SessionStream())
	_, theirs := connect(t, c.Door(leader))
	alone := records(t, theirs)
	for _, k := range c.Routes(leader) {
		k.Cut()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := alone.Swap(ctx, first, schemas.Transition{Type: schemas.TStarted})
	if err == nil {
		t.Error("a leader alone acknowledged a write")
	}
	c.HealAll()
	c.AwaitCurrent(names.SessionStream())
	// Whichever it became: it is the same for everyone, and can be gone on from.
	v := read(t, s)
	swap(t, s, v, schemas.Transition{Type: schemas.TIdleRule})
}
