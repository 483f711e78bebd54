package rebuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// generation is one recovery of all hosts of the fleet. Until it is over no host decides,
// starts, resumes or removes: each makes the records again that it knows better, notes that it
// has, and waits for the others.
type generation struct {
	schemas.Recovery
	rev uint64 // in the bucket
}

const generationKey = "generation"

// generationNow reads the fleet's last recovery; the zero one, which is over, if there
// was none.
func generationNow(ctx context.Context, kv jetstream.KeyValue) (generation, error) {
	e, err := kv.Get(ctx, generationKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return generation{Recovery: schemas.Recovery{Over: true}}, nil
	}
	if err != nil {
		return generation{}, fmt.Errorf("read whether the fleet recovers: %w", err)
	}
	var g generation
	if err := json.Unmarshal(e.Value(), &g); err != nil {
		return generation{}, fmt.Errorf("read whether the fleet recovers: %w", err)
	}
	g.rev = e.Revision()
	return g, nil
}

// swapGeneration replaces the generation that g was read as. That another host was quicker is
// no error: the caller reads it again.
func swapGeneration(ctx context.Context, kv jetstream.KeyValue, g generation) error {
	data, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("encode that the fleet recovers: %w", err)
	}
	_, err = kv.Update(ctx, generationKey, data, g.rev)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrKeyExists) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write that the fleet recovers: %w", err)
	}
	return nil
}

func fleetBucket(ctx context.Context, js jetstream.JetStream, names stream.Names) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, names.Fleet())
	if err != nil {
		return nil, fmt.Errorf("find bucket %s: %w", names.Fleet(), err)
	}
	return kv, nil
}

// others are the hosts besides this one that may know of sessions.
func (r *Rebuilder) others(ctx context.Context, log map[schemas.Name]statekv.Versioned, kept map[schemas.Name]schemas.SessionRecord) ([]schemas.HostID, error) {
	all := map[schemas.HostID]bool{}
	for _, v := range log {
		all[v.Host] = all[v.Host] || v.State != schemas.Deleted || v.Op != nil
	}
	for _, rec := range kept {
		all[rec.Host] = all[rec.Host] || rec.State != schemas.Deleted || rec.Op != nil
	}
	kv, err := r.JS.KeyValue(ctx, r.Names.Hosts())
	if err != nil {
		return nil, fmt.Errorf("find bucket %s: %w", r.Names.Hosts(), err)
	}
	hosts, err := kv.Keys(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, fmt.Errorf("list the hosts: %w", err)
	}
	for _, h := range hosts {
		all[schemas.HostID(h)] = true
	}
	delete(all, "")
	delete(all, r.Host)
	maps.DeleteFunc(all, func(_ schemas.HostID, known bool) bool { return !known })
	return slices.Sorted(maps.Keys(all)), nil
}

// assemblePoll is how often a host that waits for others looks.
const assemblePoll = 300 * time.Millisecond

// assemble notes that this host has made its records again, and waits until all others have. It
// calls waiting with the hosts that it waits for, when those change.
func (r *Rebuilder) assemble(ctx context.Context, others []schemas.HostID, waiting func([]schemas.HostID)) error {
	kv, err := fleetBucket(ctx, r.JS, r.Names)
	if err != nil {
		return err
	}
	var last []schemas.HostID
	for {
		g, err := generationNow(ctx, kv)
		if err != nil {
			return err
		}
		if g.Over {
			r.generation = g.ID
			return nil
		}
		if _, err := kv.PutString(ctx, "host."+string(r.Host), g.ID); err != nil {
			return fmt.Errorf("say that host %s has recovered: %w", r.Host, err)
		}
		missing, err := missingHosts(ctx, kv, g, others)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			g.Over = true
			if err := swapGeneration(ctx, kv, g); err != nil {
				return err
			}
			continue
		}
		if !slices.Equal(missing, last) {
			waiting(missing)
			last = missing
		}
		select {
		case <-time.After(assemblePoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// missingHosts are those that haven't made their records again in this generation.
func missingHosts(ctx context.Context, kv jetstream.KeyValue, g generation, others []schemas.HostID) (out []schemas.HostID, err error) {
	for _, h := range others {
		e, err := kv.Get(ctx, "host."+string(h))
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil, fmt.Errorf("read whether host %s has recovered: %w", h, err)
		}
		if err != nil || string(e.Value()) != g.ID {
			out = append(out, h)
		}
	}
	return out, nil
}

// joinGeneration joins the recovery that the fleet is in, or begins one if lost says that it is
// needed. in is false if there is none.
func (r *Rebuilder) joinGeneration(ctx context.Context, lost bool) (in bool, err error) {
	kv, err := fleetBucket(ctx, r.JS, r.Names)
	if err != nil {
		return false, err
	}
	for {
		g, err := generationNow(ctx, kv)
		if err != nil || !g.Over {
			return err == nil, err
		}
		if !lost {
			r.generation = g.ID
			return false, nil
		}
		next := generation{schemas.Recovery{ID: nuid.Next(), Since: time.Now().UTC(), By: r.Host}, g.rev}
		if err := swapGeneration(ctx, kv, next); err != nil {
			return false, err
		}
	}
}

// recovering reports whether the fleet is in a recovery that this host has no part in.
func (r *Rebuilder) recovering(ctx context.Context) bool {
	kv, err := fleetBucket(ctx, r.JS, r.Names)
	if err != nil {
		return false // the next look tells
	}
	g, err := generationNow(ctx, kv)
	return err == nil && g.ID != r.generation && !g.Over
}

// Recovering reports whether the fleet recovers its records just now. Nothing may be decided
// until that is over.
func Recovering(ctx context.Context, js jetstream.JetStream, names stream.Names) (bool, error) {
	kv, err := fleetBucket(ctx, js, names)
	if err != nil {
		return false, err
	}
	g, err := generationNow(ctx, kv)
	return !g.Over, err
}
