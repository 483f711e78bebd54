package api

import (
	"context"
	"fmt"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/keys"
)

// keyVerbs answers the verbs about readers and writers of images.
type keyVerbs struct {
	board   *board
	keys    *keys.Keeper
	records *statekv.Store
}

// keyVerbs are the endpoints that are about readers and writers of images; a
// server without a keeper has none.
func (s *keyVerbs) keyVerbs() map[string]handler {
	if s.keys == nil {
		return nil
	}
	return map[string]handler{
		"key_ls":     s.keyList,
		"key_add":    s.keyChange(s.keys.Add, func(v schemas.KeysView, _ schemas.KeyRequest) []string { return keys.Mixed(v) }),
		"key_rm":     s.keyChange(s.keys.Remove, func(v schemas.KeysView, r schemas.KeyRequest) []string { return keys.Advice(v, r.Rewrite) }),
		"key_rotate": s.keyChange(s.keys.Rotate, func(v schemas.KeysView, r schemas.KeyRequest) []string { return keys.Advice(v, r.Rewrite) }),
		"key_trust":  s.keyChange(s.keys.Trust, nil),
		"key_revoke": s.keyChange(s.keys.Revoke, nil),
	}
}

// tenantOf reads whose keys a request is about; every tenant's if it is empty.
func tenantOf(req request) (schemas.Tenant, error) {
	if req.Tenant != "" && !schemas.ValidToken(string(req.Tenant)) {
		return "", schemas.UsageError("tenant %q: want 1 to 64 of A-Z a-z 0-9 _ -", req.Tenant)
	}
	return req.Tenant, nil
}

func (s *keyVerbs) keyList(ctx context.Context, req request) (any, error) {
	t, err := tenantOf(req)
	if err != nil {
		return nil, err
	}
	return s.keys.View(ctx, t)
}

type keyChange func(ctx context.Context, t schemas.Tenant, req schemas.KeyRequest, actor string) error

// keyChange makes a verb of a change: the record first, then the keys of all
// images that it concerns.
func (s *keyVerbs) keyChange(change keyChange, say func(schemas.KeysView, schemas.KeyRequest) []string) handler {
	return func(ctx context.Context, req request) (any, error) {
		t, err := tenantOf(req)
		if err != nil {
			return nil, err
		}
		if req.Key == nil {
			return nil, schemas.UsageError("the request says nothing of a key")
		}
		if err := change(ctx, t, *req.Key, req.by.String()); err != nil {
			return nil, err
		}
		r, err := s.followKeys(ctx, t)
		if err != nil {
			return nil, schemas.FailedError("", "rewrite the keys of images: %v", err).WithHint("the change is recorded; the keys of the images follow later")
		}
		v, err := s.keys.View(ctx, t)
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
// capture that was under way may have started for the earlier readers: it is
// waited for, and its keys are looked after then.
func (s *keyVerbs) followKeys(ctx context.Context, t schemas.Tenant) (keys.Report, error) {
	began := s.capturing(t)
	total, err := s.keys.Pass(ctx, t)
	if err != nil || len(began) == 0 {
		return total, err
	}
	for _, v := range began {
		if err := s.written(ctx, v); err != nil {
			return total, err
		}
	}
	again, err := s.keys.Pass(ctx, t)
	again.Stored += total.Stored
	return again, err
}

// written waits until the image that a session's op is about is written, or isn't
// going to be.
func (s *keyVerbs) written(ctx context.Context, v schemas.SessionRecord) error {
	over := func(w statekv.Versioned) (outcome, error) {
		return when(w.UID != v.UID || w.Op == nil || w.Op.ID != v.Op.ID || w.Op.Kind != v.Op.Kind), nil
	}
	ch, stop := s.board.follow(v.Name())
	defer stop()
	now, err := s.records.Get(ctx, v.Name()) // it may have been over before we followed
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
func (s *keyVerbs) capturing(t schemas.Tenant) (out []schemas.SessionRecord) {
	for r := range s.board.all(t) {
		if r.Op != nil && (r.Op.Kind == schemas.OpSuspend || r.Op.Kind == schemas.OpCheckpoint || r.Op.Kind == schemas.OpRewrite) {
			out = append(out, r)
		}
	}
	return out
}
