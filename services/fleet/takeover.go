package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// again is how long what came to nothing is left alone, unless its record changes.
const again = 10 * time.Second

// looked goes through the hosts that are gone.
func (f *Fleet) looked(ctx context.Context, all []lease.Sighting) {
	live := 0
	for _, s := range all {
		if s.Verdict == lease.Live {
			live++
		}
	}
	for _, s := range all {
		if s.Verdict == lease.Live || live == 0 {
			continue
		}
		if err := f.clear(ctx, s); err != nil && ctx.Err() == nil {
			f.Log.Warn("the sessions of a lost host are not all seen to; trying again", "host", s.Host, "err", err)
		}
	}
}

// due lists what can be done for the sessions of a host, as their records stand now.
func (f *Fleet) due(h schemas.HostID, now time.Time) (out []statekv.Versioned) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known {
		return nil
	}
	for _, v := range f.records {
		t := f.tried[v.UID]
		if v.Host == h && Plan(v.SessionRecord) != Leave && (t.rev != v.Rev || now.Sub(t.at) > again) {
			out = append(out, v)
		}
	}
	return out
}

// clear sees to the sessions of one host that is gone. The records were read before the
// lease is ended, and are swapped as they were read: see package lease.
func (f *Fleet) clear(ctx context.Context, s lease.Sighting) error {
	due := f.due(s.Host, time.Now())
	if len(due) == 0 {
		return nil
	}
	_, err := f.Leases.Expire(ctx, s.Versioned, f.Actor)
	if errors.Is(err, lease.ErrHeld) {
		return nil // it is back
	}
	if err != nil {
		return err
	}
	if s.Verdict == lease.RunOut {
		f.Log.Warn("a host is lost: its lease has run out", "host", s.Host, "sessions", len(due))
	}
	var all []error
	for _, v := range due {
		err := f.see(ctx, v)
		if errors.Is(err, statekv.ErrConflict) || errors.Is(err, session.ErrIllegal) {
			continue // it moved on: the next look has it as it is then
		}
		f.tried[v.UID] = attempt{v.Rev, time.Now()}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// see does what can be done for one session.
func (f *Fleet) see(ctx context.Context, v statekv.Versioned) error {
	switch Plan(v.SessionRecord) {
	case Begin:
		return f.begin(ctx, v)
	case Adopt:
		head, header, err := f.durable(ctx, v.SessionRecord)
		if err != nil {
			return err
		}
		if head != nil {
			return f.adopt(ctx, v, *head, header)
		}
		if afterLoss(v.SessionRecord) == TakeOver {
			return f.takeOver(ctx, v)
		}
	case TakeOver:
		return f.takeOver(ctx, v)
	case GoOn:
		return f.goOn(ctx, v)
	}
	return nil
}

// begin has another host do what the lost one was asked for.
func (f *Fleet) begin(ctx context.Context, v statekv.Versioned) error {
	w := Want{Need: schemas.Fingerprint{Driver: v.Driver}}
	if m := v.Op.Move; m != nil { // it ran there, and may again
		w.Prefer, w.Back = m.From, m.From
	}
	if v.Op.Source != nil {
		header, err := f.inspect(ctx, v.SessionRecord, *v.Op.Source)
		if err != nil {
			return err
		}
		w.Need = header.Fingerprint
	}
	return f.move(ctx, v, w, schemas.TMoved, "host %s is gone before it could run there", v.Op.Reissue(time.Now()))
}

// goOn has a session whose host is lost, which suspended it for a move, go where it was to go, or
// to another host.
func (f *Fleet) goOn(ctx context.Context, v statekv.Versioned) error {
	header, err := f.inspect(ctx, v.SessionRecord, *v.Head)
	if err != nil {
		return err
	}
	op := v.Op.Reissue(time.Now())
	op.Kind, op.Source, op.Boot, op.Idle = schemas.OpResume, v.Head, session.BootOf(v.SessionRecord), false
	return f.move(ctx, v, Want{Need: header.Fingerprint, Prefer: v.Op.Move.To}, schemas.TResume, "host %s is gone, and suspended it for a move", op)
}

// takeOver resumes a session's last snapshot on another host.
func (f *Fleet) takeOver(ctx context.Context, v statekv.Versioned) error {
	from := v.Head
	if v.Op != nil && v.Op.Fallback != nil { // what took its place was never seen to be well
		from = v.Op.Fallback
	}
	header, err := f.inspect(ctx, v.SessionRecord, *from)
	if err != nil {
		return err
	}
	seq, err := stream.LastActivity(ctx, f.JS, f.Names)
	if err != nil {
		return err
	}
	op := schemas.NewOp(schemas.OpResume, seq, time.Now())
	op.Source, op.Boot = from, schemas.BootTakeover
	age := time.Since(header.Time).Round(time.Second)
	return f.move(ctx, v, Want{Need: header.Fingerprint}, schemas.TTakenOver, "host %s is gone: it goes on from its last snapshot, which is "+age.String()+" old", op)
}

// move gives a session to another host. The reason names the lost one.
func (f *Fleet) move(ctx context.Context, v statekv.Versioned, w Want, t schemas.TransitionType, reason string, op *schemas.Op) error {
	w.Session, w.Placement, w.Knows, w.Not = v.Name(), v.Placement, v.Needs, append([]schemas.HostID{v.Host}, op.Tried...)
	to, _, err := f.Place(ctx, w)
	if err != nil {
		return fmt.Errorf("session %s: %w", v.Name(), err)
	}
	set := schemas.Set{Host: to, Op: op}
	if t == schemas.TTakenOver { // else it was suspended before, and had its reason then
		set.Pause = &schemas.Pause{Reason: schemas.PauseHost, At: time.Now().UTC()}
	}
	next, err := f.Records.Swap(ctx, v, schemas.Transition{Type: t, Reason: fmt.Sprintf(reason, v.Host), Actor: f.Actor, Op: op.ID, Set: set})
	if err != nil {
		return err
	}
	f.Log.Warn("moved", v.Logged("from", v.Host, "to", to, "reason", next.Transition.Reason)...)
	if err := f.publish.Command(ctx, next.SessionRecord); err != nil {
		f.Log.Warn("command not published; the host's own watch finds the record", v.Logged("err", err)...)
	}
	return nil
}

// durable finds the image of a suspend whose host died before the record said so, nil
// if there is none.
func (f *Fleet) durable(ctx context.Context, r schemas.SessionRecord) (*schemas.Head, schemas.ImageHeader, error) {
	all, err := image.List(ctx, f.Images, r.Tenant, r.Lineage, f.Trusted)
	if err != nil {
		return nil, schemas.ImageHeader{}, fmt.Errorf("look for an image of session %s: %w", r.Name(), err)
	}
	for i := len(all) - 1; i >= 0; i-- {
		l := all[i]
		if l.Err != nil || l.Header.Op != r.Op.ID || l.Header.Epoch != r.Epoch || l.Header.UID != r.UID || l.Header.Signer != r.Host {
			continue
		}
		if err := f.whole(ctx, r, l.Head); err != nil {
			f.Log.Warn("an image that no record names is not whole, and not adopted", r.Logged("image", l.Head.Name, "err", err)...)
			continue
		}
		return &l.Head, l.Header, nil
	}
	return nil, schemas.ImageHeader{}, nil
}

// whole looks at all of an image, if it can be opened here.
func (f *Fleet) whole(ctx context.Context, r schemas.SessionRecord, head schemas.Head) error {
	if len(f.Identities) == 0 {
		_, err := f.inspect(ctx, r, head)
		return err
	}
	img, err := image.Open(ctx, f.Images, head, image.ReadOptions{
		Identities: f.Identities, Trusted: f.Trusted, Expect: image.Expect{Tenant: r.Tenant, Session: r.Session, UID: r.UID, Lineage: r.Lineage},
	})
	if err != nil {
		return err
	}
	defer img.Close()
	return img.CheckPacks(ctx)
}

// adopt makes an image that no record names the session's head. Its frozen processes
// are removed by its host, should that come back.
func (f *Fleet) adopt(ctx context.Context, v statekv.Versioned, head schemas.Head, h schemas.ImageHeader) error {
	op := schemas.NewOp(schemas.OpReap, v.Op.Seq, time.Now())
	op.Idle, op.Trigger, op.Move = v.Op.Idle, v.Op.Trigger, v.Op.Move // of a move: GoOn comes next
	next, err := f.Records.Swap(ctx, v, schemas.Transition{
		Type: schemas.TAdopted, Reason: fmt.Sprintf("host %s is gone, and its image was durable already", v.Host), Actor: f.Actor, Op: op.ID,
		Set: schemas.Set{Head: &head, Op: op, Size: &schemas.Sizes{At: h.Time, Logical: h.LogicalBytes, New: h.NewBytes, Stored: h.StoredBytes}},
	})
	if err == nil {
		f.Log.Warn("adopted", next.Logged("image", head.Name)...)
	}
	return err
}

func (f *Fleet) inspect(ctx context.Context, r schemas.SessionRecord, head schemas.Head) (schemas.ImageHeader, error) {
	h, err := image.Inspect(ctx, f.Images, head, image.ReadOptions{Trusted: f.Trusted, Expect: image.Expect{Tenant: r.Tenant}})
	if err != nil {
		return h, fmt.Errorf("look at the image of session %s: %w", r.Name(), err)
	}
	return h, nil
}
