package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/diapause/diapause/events/keykv"
	"github.com/diapause/diapause/schemas"
)

// Add makes a recipient a reader of a tenant's images, of every tenant's if t is
// empty. Those that there are follow with a Pass.
func (k *Keeper) Add(ctx context.Context, t schemas.Tenant, req schemas.KeyRequest, actor string) error {
	_, err := k.Ring.store.Update(ctx, t, add(req, actor))
	return err
}

// Remove takes a reader away. New images get new keys, and refer to nothing older
// if req says so.
func (k *Keeper) Remove(ctx context.Context, t schemas.Tenant, req schemas.KeyRequest, actor string) error {
	return k.begin(ctx, t, func(e elsewhere) edit { return remove(req, actor, e) }, actor)
}

// Rotate has new images get new keys.
func (k *Keeper) Rotate(ctx context.Context, t schemas.Tenant, req schemas.KeyRequest, actor string) error {
	return k.begin(ctx, t, func(e elsewhere) edit { return rotate(req, actor, e.floor) }, actor)
}

// Trust lets a host sign a tenant's images with a key.
func (k *Keeper) Trust(ctx context.Context, t schemas.Tenant, req schemas.KeyRequest, actor string) error {
	_, err := k.Ring.store.Update(ctx, t, trust(req, actor))
	return err
}

// Revoke ends that. What was recorded before stays valid.
func (k *Keeper) Revoke(ctx context.Context, t schemas.Tenant, req schemas.KeyRequest, actor string) error {
	e, err := k.elsewhere(ctx, t)
	if err != nil {
		return err
	}
	_, err = k.Ring.store.Update(ctx, t, revoke(req, actor, e))
	return err
}

// begin makes a change after which new images get new keys. Generations are
// compared across records: if another one reached the same meanwhile, this one
// goes beyond it.
func (k *Keeper) begin(ctx context.Context, t schemas.Tenant, make func(elsewhere) edit, actor string) error {
	e, err := k.elsewhere(ctx, t)
	if err != nil {
		return err
	}
	v, err := k.Ring.store.Update(ctx, t, make(e))
	if err != nil {
		return err
	}
	for {
		if e, err = k.elsewhere(ctx, t); err != nil || e.floor < v.Generation {
			return err
		}
		rewrite := v.FullSince == v.Generation
		if v, err = k.Ring.store.Update(ctx, t, rotate(schemas.KeyRequest{Rewrite: rewrite}, actor, e.floor)); err != nil {
			return err
		}
	}
}

// elsewhere reads what a change of a tenant's record has to know of others.
func (k *Keeper) elsewhere(ctx context.Context, t schemas.Tenant) (elsewhere, error) {
	e := elsewhere{ours: k.ours}
	watch, stop := context.WithCancel(ctx)
	defer stop()
	complete := false
	err := k.Ring.store.Watch(watch, func(v keykv.Versioned) {
		if v.Tenant == t {
			return
		}
		if v.Tenant == "" {
			e.every = v.TenantKeys
		}
		if t == "" || v.Tenant == "" {
			e.floor = max(e.floor, v.Generation)
		}
	}, func() {
		complete = true
		stop()
	})
	if err == nil && !complete {
		err = fmt.Errorf("read the keys: %w", ctx.Err())
	}
	return e, err
}

// View shows a tenant's keys, every tenant's if t is empty, and how far the keys
// of the images follow.
func (k *Keeper) View(ctx context.Context, t schemas.Tenant) (schemas.KeysView, error) {
	set, err := k.Ring.Refresh(ctx, t)
	if err != nil {
		return schemas.KeysView{}, err
	}
	v := schemas.KeysView{
		Tenant: t, Generation: set.Generation, FullSince: set.FullSince, Kind: set.Kind(),
		Readers: append([]schemas.KeyReader{}, set.Readers...), Writers: append([]schemas.KeyWriter{}, set.Writers...),
	}
	r, err := k.look(ctx, t)
	v.Lineages, v.Keys, v.Behind = r.Lineages, r.Keys, r.Behind
	return v, err
}

// Advice tells a person what a removal, or a rotation, means for what there is.
func Advice(v schemas.KeysView, rewrite bool) []string {
	var out []string
	if v.Lineages > 0 {
		out = append(out, fmt.Sprintf("anyone with a copy of today's keys (%d, of %d sessions) can read what was written before, while it is stored", v.Keys, v.Lineages))
	}
	if rewrite {
		out = append(out, "the next image of each session is written in full and refers to nothing older: delete the older snapshots (`diapause snapshots rm`, or retention), and what was readable before is gone")
	} else if v.Lineages > 0 {
		out = append(out, "new images have new keys, and still refer to pages that were stored before; --rewrite has the next one written in full")
	}
	return out
}

// Mixed tells a person why images aren't post-quantum, if some reader is.
func Mixed(v schemas.KeysView) []string {
	if v.Kind == "post-quantum" || !slices.ContainsFunc(v.Readers, func(r schemas.KeyReader) bool { return strings.HasPrefix(r.Recipient, "age1pq1") }) {
		return nil
	}
	var classic []string
	for _, r := range v.Readers {
		if readsImages(r) && !strings.HasPrefix(r.Recipient, "age1pq1") {
			classic = append(classic, r.Name)
		}
	}
	return []string{"images are not safe from quantum computers while there are readers with classic keys: " + strings.Join(classic, ", ")}
}
