package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path"
	"reflect"
	"slices"
	"time"

	"github.com/diapause/diapause/events/policykv"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// views answers the verbs that look.
type views struct {
	sessions  *sessions
	quotas    *quotas
	board     *board
	fleet     Fleet
	js        jetstream.JetStream
	log       *slog.Logger
	names     stream.Names
	nc        *nats.Conn
	policies  *policykv.Cache
	records   *statekv.Store
	rooms     *rooms
	past      *archive.Reader
	scheduler Explainer
	stored    func(schemas.Name, schemas.UID) (bytes int64, known bool) // nil if nothing sums it up
}

// hostAnswer bounds how long a list waits for what a host sees.
const hostAnswer = time.Second

func (s *views) list(ctx context.Context, req request) (any, error) {
	var only schemas.ListRequest
	if req.List != nil {
		only = *req.List
	}
	if only.Limit < 0 {
		return nil, schemas.UsageError("limit %d: want a number above 0", only.Limit)
	}
	if !only.Archived.Known() {
		return nil, schemas.UsageError("archived %q: want none or only", only.Archived)
	}
	var one schemas.Name
	if req.Name != "" {
		var err error
		if one, err = name(req.Name); err != nil {
			return nil, err
		}
	}
	var last schemas.Name
	if only.After != "" {
		var err error
		if last, err = name(only.After); err != nil {
			return nil, err
		}
	}
	out := []schemas.View{}
	for r := range s.board.after(last, req.Tenant, func(n schemas.Name, s sight) bool {
		return s.state != schemas.Template && only.Archived.Has(s.archived) && (req.Name == "" || n == one)
	}) {
		if !listed(only, r) {
			continue
		}
		if out = append(out, schemas.ViewOf(r)); len(out) == only.Limit {
			break
		}
	}
	s.fill(ctx, out)
	s.queued(ctx, req.by, out)
	return out, nil
}

// listed reports whether a list has a session.
func listed(l schemas.ListRequest, r schemas.SessionRecord) bool {
	return (len(l.States) == 0 || slices.Contains(l.States, r.State)) && (l.Class == "" || l.Class == r.Class) && (l.Host == "" || l.Host == r.Host) && schemas.Labelled(r.Labels, l.Labels)
}

func (s *views) show(ctx context.Context, req request) (any, error) {
	v, err := s.sessions.named(ctx, req)
	if err != nil {
		return nil, err
	}
	out := []schemas.View{schemas.ViewOf(v.SessionRecord)}
	s.fill(ctx, out)
	return out[0], nil
}

// fill adds what records don't have: how idle sessions are, and what complete adds.
func (s *views) fill(ctx context.Context, views []schemas.View) {
	idle, err := s.scheduler.Idle(ctx)
	if err != nil {
		s.log.Debug("no idle times", "err", err)
	}
	for i := range views {
		v := &views[i]
		if n, err := schemas.ParseName(v.Name); err == nil && onHost(v.State) {
			v.IdleSeconds = idle[n].Seconds()
		}
	}
	s.complete(ctx, views)
}

// complete adds what hosts see of sessions, and what their snapshots take. A host that
// doesn't answer leaves zeros.
func (s *views) complete(ctx context.Context, views []schemas.View) {
	hosts, now := map[schemas.HostID]map[schemas.UID]schemas.Observed{}, time.Now()
	for i := range views {
		v := &views[i]
		v.StoredBytes, v.Wake = s.storedBy(v), s.wakeOf(v)
		v.Shares = slices.DeleteFunc(v.Shares, func(s schemas.ShareView) bool { return !now.Before(s.Until) })
		since, gone := s.fleet.Gone(v.Host)
		if gone {
			v.HostGone = &since
		}
		if !onHost(v.State) && v.State != schemas.Resuming {
			continue
		}
		if _, asked := hosts[v.Host]; !asked && !gone {
			var only []schemas.UID
			if len(views) == 1 {
				only = []schemas.UID{v.UID}
			}
			hosts[v.Host] = s.observed(ctx, v.Host, only...)
		}
		o := hosts[v.Host][v.UID]
		if v.Op != "" {
			v.Queue = o.Queue
		}
		if onHost(v.State) {
			v.PID, v.RSSBytes, v.Processes, v.Status, v.Container, v.Listens = o.PID, o.RSSBytes, o.Processes, o.Status, o.Container, o.Listens
			for i := range v.Shares {
				v.Shares[i].Watching = o.Watching[v.Shares[i].ID]
			}
		}
	}
}

// wakeOf is which requests from outside resume a session; nil where no policy says.
func (s *views) wakeOf(v *schemas.View) []schemas.WakeRule {
	n, err := schemas.ParseName(v.Name)
	if err != nil || s.policies == nil {
		return nil
	}
	return s.policies.For(schemas.SessionRecord{Tenant: n.Tenant, Session: n.Session, UID: v.UID, Class: v.Class}).Wake
}

// onHost reports whether a session has processes on its host.
func onHost(s schemas.State) bool { return s == schemas.Running || s == schemas.Suspending }

// storedBy is what all snapshots of a session take in the store: at least what its last
// one does, of which the sum may not have been told yet.
func (s *views) storedBy(v *schemas.View) (bytes int64) {
	if v.Snapshot != nil {
		bytes = v.Snapshot.StoredBytes
	}
	if n, err := schemas.ParseName(v.Name); err == nil && s.stored != nil {
		if sum, known := s.stored(n, v.UID); known {
			bytes = max(bytes, sum)
		}
	}
	return bytes
}

// observed asks a host what it sees of the given sessions, or of all if none is given.
func (s *views) observed(ctx context.Context, host schemas.HostID, of ...schemas.UID) map[schemas.UID]schemas.Observed {
	ctx, cancel := context.WithTimeout(ctx, hostAnswer)
	defer cancel()
	var question []byte
	if len(of) > 0 {
		question, _ = json.Marshal(of) // strings always encode
	}
	msg, err := s.nc.RequestWithContext(ctx, schemas.SubjectHost+"."+string(host)+".observe", question)
	if err != nil {
		s.log.Debug("host doesn't answer", "host", host, "err", err)
		return nil
	}
	var out map[schemas.UID]schemas.Observed
	if err := json.Unmarshal(msg.Data, &out); err != nil {
		s.log.Warn("what a host answered is not readable", "host", host, "err", err)
	}
	return out
}

func (s *views) history(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	revs, gaps, err := s.past.History(ctx, n)
	if err != nil {
		return nil, err
	}
	out := make([]schemas.TransitionView, len(revs))
	for i, v := range revs {
		out[i] = schemas.ViewTransition(v.SessionRecord)
	}
	if err := s.addJoined(ctx, n, out); err != nil {
		return nil, err
	}
	for _, g := range gaps { // from the place where they are missing
		at := slices.IndexFunc(out, func(t schemas.TransitionView) bool { return t.Version == g.To+1 })
		at = max(at, 0)
		out = slices.Insert(out, at, schemas.TransitionView{Version: g.To, Type: schemas.TGap, Reason: g.String(), At: out[at].At})
	}
	return out, nil
}

func (s *views) explain(ctx context.Context, req request) (any, error) {
	n, err := name(req.Name)
	if err != nil {
		return nil, err
	}
	v, err := s.sessions.get(ctx, n)
	if err != nil {
		return nil, err
	}
	e, ok, err := s.scheduler.Explain(ctx, n)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, schemas.FailedError("", "the scheduler doesn't know session %s yet", n).WithHint("try again in a moment")
	}
	e.Policies = s.policiesOf(v.SessionRecord)
	if v.Size != nil {
		e.SnapshotAt = v.Size.At
	}
	if s.policies != nil {
		e.Every = schemas.Duration(s.policies.For(v.SessionRecord).Checkpoints.Every())
	}
	if e.Decided, err = s.decided(ctx, v); err != nil {
		return nil, err
	}
	if e.Decided != nil {
		one := []schemas.TransitionView{*e.Decided}
		if err := s.addJoined(ctx, n, one); err != nil {
			return nil, err
		}
		e.Decided = &one[0]
	}
	since, gone := s.fleet.Gone(v.Host)
	if gone && v.State != schemas.Suspended && v.State != schemas.Exited {
		e.Text = fmt.Sprintf("its host %s is gone since %s; %s", v.Host, since.Format(time.RFC3339), e.Text)
	}
	if v.Queued() {
		s.explainQueued(ctx, req.by, v.SessionRecord, &e)
	} else if v.Op != nil && !gone {
		if q := s.observed(ctx, v.Host, v.UID)[v.UID].Queue; q != nil {
			e.Blockers = append(e.Blockers, schemas.WaitingFor{Kind: schemas.WaitingQueue, Subject: q.Limit, What: fmt.Sprintf("%s waits in the queue of host %s: %s", v.Op.Kind, v.Host, q)})
		}
	}
	return e, nil
}

// Audit is what folding the log found.
type Audit struct {
	Sessions    int      `json:"sessions"`
	Transitions int      `json:"transitions"`
	Problems    []string `json:"problems"` // empty: the log gives every record back
}

// audit folds every session's transitions through session.Apply and compares
// each record with what the log says it must be.
func (s *views) audit(ctx context.Context, _ request) (any, error) {
	last := map[schemas.Name]schemas.SessionRecord{}
	out := Audit{Problems: []string{}}
	gaps, err := s.past.Log(ctx, "", time.Time{}, func(v statekv.Versioned) error {
		n, prev := v.Name(), last[v.Name()]
		out.Transitions++
		last[n] = v.SessionRecord
		if v.Version == 1 && prev.State == schemas.Deleted {
			prev = schemas.SessionRecord{} // all of the one before had left NATS
		}
		if v.Version > prev.Version+1 {
			return nil // the gap is told below
		}
		want, err := session.Apply(prev, v.Transition)
		switch {
		case v.Version != prev.Version+1:
			out.Problems = append(out.Problems, fmt.Sprintf("session %s: version %d follows %d", n, v.Version, prev.Version))
		case err != nil:
			out.Problems = append(out.Problems, fmt.Sprintf("session %s, version %d: %v", n, v.Version, err))
		case !sameRecord(want, v.SessionRecord) && !sameRecord(asBefore(want), v.SessionRecord):
			out.Problems = append(out.Problems, fmt.Sprintf("session %s, version %d: the record isn't what its transition makes of the one before", n, v.Version))
		}
		return nil
	})
	for _, g := range gaps {
		out.Problems = append(out.Problems, g.String())
	}
	for n := range last {
		if _, template := n.Template(); !template {
			out.Sessions++
		}
	}
	return out, err
}

// asBefore gives a record as a version writes it that knows no pauses, warnings, traces, Keeps, Exposed, Labels, Origin, Shares, Archived,
// Desktop, Op.Only and Network: of several hosts one may be of that version for a while. It gets no session that needs
// what it would drop.
func asBefore(r schemas.SessionRecord) schemas.SessionRecord {
	r.Pause, r.Warnings, r.Keeps, r.Exposed, r.Labels, r.Origin, r.Shares, r.Archived = nil, nil, "", nil, nil, nil, nil, nil
	r.Desktop = nil
	if r.Network != schemas.NetworkPrivate {
		r.Network = ""
	}
	if r.Op != nil {
		op := *r.Op
		op.Trace, op.Only, r.Op = "", "", &op
	}
	return r
}

// sameRecord compares two records as they are stored.
func sameRecord(a, b schemas.SessionRecord) bool {
	x, errX := stored(a)
	y, errY := stored(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func stored(r schemas.SessionRecord) (map[string]any, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(data, &m)
}

// snapshotID is the short name of a snapshot.
func snapshotID(h schemas.Head) string { return path.Base(h.Name) }
