package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/keys"
)

// keyVerbs are the endpoints that are about readers and writers of images; a
// server without a keeper has none.
func (s *Server) keyVerbs() map[string]handler {
	if s.Keys == nil {
		return nil
	}
	return map[string]handler{
		"key_ls":     s.keyList,
		"key_add":    s.keyChange(s.Keys.Add, func(v schemas.KeysView, _ schemas.KeyRequest) []string { return keys.Mixed(v) }),
		"key_rm":     s.keyChange(s.Keys.Remove, func(v schemas.KeysView, r schemas.KeyRequest) []string { return keys.Advice(v, r.Rewrite) }),
		"key_rotate": s.keyChange(s.Keys.Rotate, func(v schemas.KeysView, r schemas.KeyRequest) []string { return keys.Advice(v, r.Rewrite) }),
		"key_trust":  s.keyChange(s.Keys.Trust, nil),
		"key_revoke": s.keyChange(s.Keys.Revoke, nil),
	}
}

// tenantOf reads whose keys a request is about; every tenant's if it is empty.
func tenantOf(req schemas.Request) (schemas.Tenant, error) {
	if req.Tenant != "" && !schemas.ValidToken(string(req.Tenant)) {
		return "", schemas.UsageError("tenant %q: want 1 to 64 of A-Z a-z 0-9 _ -", req.Tenant)
	}
	return req.Tenant, nil
}

func (s *Server) keyList(ctx context.Context, req schemas.Request) (any, error) {
	t, err := tenantOf(req)
	if err != nil {
		return nil, err
	}
	return s.Keys.View(ctx, t)
}

type keyChange func(ctx context.Context, t schemas.Tenant, req schemas.KeyRequest, actor string) error

// keyChange makes a verb of a change: the record first, then the keys of all
// images that it concerns.
func (s *Server) keyChange(change keyChange, say func(schemas.KeysView, schemas.KeyRequest) []string) handler {
	return func(ctx context.Context, req schemas.Request) (any, error) {
		t, err := tenantOf(req)
		if err != nil {
			return nil, err
		}
		if req.Key == nil {
			return nil, schemas.UsageError("the request says nothing of a key")
		}
		if err := change(ctx, t, *req.Key, orDefault(req.Actor, "client")); err != nil {
			return nil, err
		}
		r, err := s.followKeys(ctx, t)
		if err != nil {
			return nil, schemas.FailedError("", "rewrite the keys of images: %v", err).WithHint("the change is recorded; the keys of the images follow later")
		}
		v, err := s.Keys.View(ctx, t)
		if err != nil {
			return nil, err
		}
		v.Wrapped, v.Locked = r.Stored, r.Locked
		if say != nil {
			v.Text = say(v, *req.Key)
		}
		if r.Locked > 0 {
			v.Text = append(v.Text, fmt.Sprintf("%d lineage keys stay as they are until a host is up that has an identity which opens them", r.Locked))
		}
		if r.Unsealed > 0 {
			v.Text = append(v.Text, fmt.Sprintf("how %d sessions are to be started stays sealed to those who could open it before", r.Unsealed))
		}
		return v, nil
	}
}

// followKeys looks after the keys until nothing is behind that could be helped. A
// capture that was under way may have begun for the readers of before: it is
// waited for, and its keys are looked after then.
func (s *Server) followKeys(ctx context.Context, t schemas.Tenant) (keys.Report, error) {
	began := s.capturing(t)
	total, err := s.Keys.Pass(ctx, t)
	if err != nil || len(began) == 0 {
		return total, err
	}
	for _, v := range began {
		if err := s.written(ctx, v); err != nil {
			return total, err
		}
	}
	again, err := s.Keys.Pass(ctx, t)
	again.Stored += total.Stored
	return again, err
}

// written waits until the image that a session's op is about is written, or isn't
// going to be.
func (s *Server) written(ctx context.Context, v schemas.SessionRecord) error {
	over := func(w statekv.Versioned) (outcome, error) {
		return when(w.UID != v.UID || w.Op == nil || w.Op.ID != v.Op.ID || w.Op.Kind != v.Op.Kind), nil
	}
	ch, stop := s.board.follow(v.Name())
	defer stop()
	now, err := s.Records.Get(ctx, v.Name()) // it may have been over before we followed
	if err != nil {
		return err
	}
	if o, _ := over(now); o == done {
		return nil
	}
	_, err = await(ctx, ch, over)
	return err
}

// capturing lists the sessions of which an image is being written.
func (s *Server) capturing(t schemas.Tenant) (out []schemas.SessionRecord) {
	for r := range s.board.all(t) {
		if r.Op != nil && (r.Op.Kind == schemas.OpSuspend || r.Op.Kind == schemas.OpCheckpoint) {
			out = append(out, r)
		}
	}
	return out
}

// sealers gives to whom it is sealed how a tenant's sessions are to be started, and
// a word that stands for them.
func (s *Server) sealers(ctx context.Context, t schemas.Tenant) ([]age.Recipient, string, error) {
	if s.Keys == nil {
		return s.Recipients, "", nil
	}
	return s.Keys.Ring.Sealers(ctx, t)
}

// seal seals how a session is to be started.
func (s *Server) seal(ctx context.Context, t schemas.Tenant, spec []byte) (string, error) {
	to, word, err := s.sealers(ctx, t)
	if err != nil {
		return "", err
	}
	sealed, err := seal.Seal(spec, to...)
	if err == nil && word != "" {
		sealed = seal.Label(sealed, word)
	}
	return sealed, err
}

// mayShred refuses while another session goes on from an image of this one's: it
// would be lost. A fork that comes in between is found by the host, which then
// waits for it.
func (s *Server) mayShred(ctx context.Context, req schemas.Request) error {
	n, err := name(req.Name)
	if err != nil {
		return err
	}
	v, err := s.get(ctx, n)
	if err != nil {
		return err
	}
	for other := range s.board.all("") {
		if other.UID == v.UID || !goesOnFrom(other, v.SessionRecord) {
			continue
		}
		how := fmt.Sprintf("`diapause checkpoint %s` gives it an image of its own", other.Name())
		if other.State != schemas.Running {
			how = fmt.Sprintf("`diapause ensure %s`, then `diapause checkpoint %s`, gives it an image of its own", other.Name(), other.Name())
		}
		return schemas.StateError(schemas.ReasonInUse, "session %s goes on from an image of session %s", other.Name(), n).WithHint("it would be lost with it: %s; or remove it first", how)
	}
	return nil
}

// goesOnFrom reports whether a record points into another session's lineage.
func goesOnFrom(r, origin schemas.SessionRecord) bool {
	within := string(origin.Tenant) + "/" + origin.Lineage + "/"
	return slices.ContainsFunc(r.Heads(), func(h schemas.Head) bool { return strings.HasPrefix(h.Name, within) })
}

// known gives the keys that images may ever have been signed with: for what is
// kept, as opposed to what is believed.
func (s *Server) known() image.Trusted {
	if s.Keys == nil {
		return s.Trusted
	}
	return s.Keys.Ring.Known
}

// listed lists the snapshots of a session. One whose writer was revoked is as good
// as ever if it was recorded as the session's head before that; else it is listed
// as one that isn't trusted.
func (s *Server) listed(ctx context.Context, v statekv.Versioned) ([]image.Listed, error) {
	trusted := s.Trusted
	if s.Keys != nil {
		trusted = image.TrustedWhen(s.Keys.Ring.Writers(ctx, v.Tenant), nil)
	}
	all, err := image.List(ctx, s.Images, v.Tenant, v.Lineage, trusted)
	if err != nil {
		return nil, fmt.Errorf("list the snapshots of session %s: %w", v.Name(), err)
	}
	if s.Keys == nil || !slices.ContainsFunc(all, func(l image.Listed) bool { return l.Err != nil }) {
		return all, nil
	}
	history, err := s.Records.History(ctx, v.Name())
	if err != nil {
		return nil, err
	}
	for i, l := range all {
		if l.Err == nil {
			continue
		}
		recorded := func() time.Time { return keys.Recorded(history, l.Head) }
		o := image.ReadOptions{Trusted: image.TrustedWhen(s.Keys.Ring.Writers(ctx, v.Tenant), recorded)}
		if h, err := image.Inspect(ctx, s.Images, l.Head, o); err == nil {
			all[i].Header, all[i].Err = h, nil
		}
	}
	return all, nil
}
