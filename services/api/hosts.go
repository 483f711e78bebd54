package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/hostkv"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/drain"
	"github.com/diapause/diapause/services/fleet"
)

// Drainer knows what is to be done about the sessions of a host that is drained. *drain.Drainer
// is one.
type Drainer interface {
	Steps(ctx context.Context, o schemas.HostOrder) ([]drain.Step, error)
}

var _ Drainer = (*drain.Drainer)(nil)

// hostVerbs answers the verbs about hosts.
type hostVerbs struct {
	fleet   Fleet
	orders  *hostkv.Cache // nil if nothing can be ordered
	drainer Drainer       // nil if no host can be drained
	board   *board
	js      jetstream.JetStream
	names   stream.Names

	sessions *sessions
}

func (s *hostVerbs) verbs() map[string]handler {
	all := map[string]handler{"host_ls": s.list, "host_show": s.show}
	if s.orders == nil {
		return all
	}
	all["host_cordon"] = s.order(func(o *schemas.HostOrder, _ request) bool {
		was := o.Cordoned
		o.Cordoned = true
		return !was
	})
	all["host_uncordon"] = s.order(func(o *schemas.HostOrder, _ request) bool {
		was := o.Says()
		o.Cordoned, o.Draining, o.Force = false, false, false
		return was
	})
	all["host_rm"] = s.remove
	if s.drainer != nil {
		all["host_drain"] = s.order(func(o *schemas.HostOrder, req request) bool {
			was := *o
			o.Cordoned, o.Draining, o.Force = true, true, req.Force
			return was != *o
		})
	}
	return all
}

// order makes a verb of a change of a host's order; change reports whether there is one. It
// answers with the host.
func (s *hostVerbs) order(change func(*schemas.HostOrder, request) bool) handler {
	return func(ctx context.Context, req request) (any, error) {
		if _, err := s.known(ctx, req); err != nil {
			return nil, err
		}
		_, err := s.orders.Update(ctx, req.Host, func(o *schemas.HostOrder) (bool, error) {
			changed := change(o, req)
			o.By = req.by.String()
			return changed, nil
		})
		if err != nil {
			return nil, err
		}
		return s.show(ctx, req)
	}
}

// known gives a host that has announced itself.
func (s *hostVerbs) known(ctx context.Context, req request) (fleet.Host, error) {
	if !schemas.ValidToken(string(req.Host)) {
		return fleet.Host{}, schemas.UsageError("host %q: want 1 to 64 letters, digits, - or _", req.Host)
	}
	all, err := s.fleet.Hosts(ctx)
	if err != nil {
		return fleet.Host{}, err
	}
	i := slices.IndexFunc(all, func(h fleet.Host) bool { return h.Host.Host == req.Host })
	if i < 0 {
		return fleet.Host{}, schemas.FailedError(schemas.ReasonNoHost, "there is no host %s", req.Host).WithHint("`diapause host ls` lists the hosts")
	}
	return all[i], nil
}

func (s *hostVerbs) list(ctx context.Context, _ request) (any, error) {
	all, err := s.fleet.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	asleep := s.board.asleep()
	out := make([]schemas.HostView, 0, len(all))
	for _, h := range all {
		out = append(out, s.view(h, asleep))
	}
	slices.SortFunc(out, func(a, b schemas.HostView) int { return cmp.Compare(a.Host.Host, b.Host.Host) })
	return out, nil
}

// view shows a host, without its sessions one by one.
func (s *hostVerbs) view(h fleet.Host, asleep map[schemas.HostID]int) schemas.HostView {
	id := h.Host.Host
	v := schemas.HostView{Host: h.Host, Alive: !h.Gone, SlotsBy: h.SlotsBy, Suspended: asleep[id], Empty: true}
	if since, gone := s.fleet.Gone(id); gone {
		v.GoneSince = &since
	}
	if o := s.orders.Order(id); o.Says() {
		v.Order = &o
	}
	for r := range s.board.busy {
		if r.Host == id || r.MovingTo() == id {
			v.Empty = false
			if _, running := weigh(r.State, r.MovingTo() != "", r.Archived != nil); running > 0 {
				v.Running++
			}
		}
	}
	return v
}

func (s *hostVerbs) show(ctx context.Context, req request) (any, error) {
	h, err := s.known(ctx, req)
	if err != nil {
		return nil, err
	}
	v := s.view(h, s.board.asleep())
	v.Left, err = s.left(ctx, req.Host)
	return v, err
}

// left lists the sessions of a host, but for those that sleep there or have ended; of a host
// that is drained with what is done about each.
func (s *hostVerbs) left(ctx context.Context, id schemas.HostID) ([]schemas.HostLeft, error) {
	if o := s.orders.Order(id); o.Draining && s.drainer != nil {
		steps, err := s.drainer.Steps(ctx, o)
		return drain.Left(steps), err
	}
	return s.on(id), nil
}

// on lists the sessions that run on a host, or are on their way to it or from it.
func (s *hostVerbs) on(id schemas.HostID) (out []schemas.HostLeft) {
	for r := range s.board.busy {
		if r.Host == id || r.MovingTo() == id {
			out = append(out, schemas.HostLeft{Name: r.Name().String(), State: r.State, Why: r.Underway()})
		}
	}
	slices.SortFunc(out, func(a, b schemas.HostLeft) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// leftAtMost is how many sessions a refusal names.
const leftAtMost = 10

// remove forgets a host that is gone for good, first what it said of itself, then the order about
// it: a host that is known and not cordoned any more could be given sessions.
func (s *hostVerbs) remove(ctx context.Context, req request) (any, error) {
	h, err := s.known(ctx, req)
	if err != nil {
		return nil, err
	}
	if !h.Gone {
		return nil, schemas.StateError(schemas.ReasonInUse, "host %s is there: its worker runs", req.Host).
			WithHint("`diapause host drain %s` takes its sessions elsewhere; stop its worker then", req.Host)
	}
	handed, err := s.handOver(ctx, req)
	if err != nil {
		return nil, err
	}
	left := slices.DeleteFunc(s.on(req.Host), func(l schemas.HostLeft) bool { return slices.Contains(handed, l.Name) })
	if len(left) > 0 {
		text := ""
		for i, l := range left[:min(len(left), leftAtMost)] {
			if i > 0 {
				text += ", "
			}
			text += fmt.Sprintf("%s (%s)", l.Name, l.State)
		}
		return nil, schemas.StateError(schemas.ReasonInUse, "host %s still has %s: %s", req.Host, schemas.CountSessions(len(left)), text).
			WithHint("start its worker again, or remove them with `diapause rm`; `resume --clean` starts a lost one again elsewhere")
	}
	kv, err := s.js.KeyValue(ctx, s.names.Hosts())
	if err != nil {
		return nil, fmt.Errorf("find bucket %s: %w", s.names.Hosts(), err)
	}
	if err := kv.Delete(ctx, string(req.Host)); err != nil {
		return nil, fmt.Errorf("forget host %s: %w", req.Host, err)
	}
	_, err = s.orders.Update(ctx, req.Host, func(o *schemas.HostOrder) (bool, error) {
		says := o.Says()
		o.Cordoned, o.Draining, o.Force, o.By = false, false, false, req.by.String()
		return says, nil
	})
	v := s.view(h, s.board.asleep())
	v.Order = nil
	return v, err
}

// handOver has other hosts remove what the host was still to remove, and names the sessions.
// Processes of such a session may have run there: that the host is gone for good is what the verb is
// told, and the epoch goes up, so that one which is back after all ends them.
func (s *hostVerbs) handOver(ctx context.Context, req request) (handed []string, err error) {
	for r := range s.board.busy {
		if r.Host != req.Host || r.State != schemas.Deleted {
			continue
		}
		v, err := s.sessions.records.Get(ctx, r.Name())
		if err != nil {
			return nil, fmt.Errorf("read session %s: %w", r.Name(), err)
		}
		if v.Host == req.Host && v.State == schemas.Deleted && v.Op != nil {
			err = s.removeElsewhere(ctx, v, req)
		}
		if errors.Is(err, statekv.ErrConflict) {
			continue
		}
		if err != nil {
			return nil, err
		}
		handed = append(handed, r.Name().String())
	}
	return handed, nil
}

func (s *hostVerbs) removeElsewhere(ctx context.Context, v statekv.Versioned, req request) error {
	to, _, err := s.fleet.Place(ctx, fleet.Want{Session: v.Name(), Need: schemas.Fingerprint{Driver: v.Driver}, Not: []schemas.HostID{req.Host}})
	if err != nil {
		return noHost(v.Name(), err)
	}
	why := fmt.Sprintf("host %s is gone for good: %s removes what it stored", req.Host, to)
	_, err = s.sessions.ask(ctx, v, req, schemas.Transition{Type: schemas.TMoved, Reason: why, Set: schemas.Set{Op: v.Op.Reissue(time.Now()), Host: to}})
	return err
}
