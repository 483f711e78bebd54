package schemas

import (
	"cmp"
	"fmt"
	"slices"
)

// PageRequest asks for a part of a list. The list is in the order of its keys then, so that a page that follows depends on nothing but
// the key of the last one before.
type PageRequest struct {
	Limit int    `json:"limit,omitempty"` // how many at most; no limit if 0
	After string `json:"after,omitempty"` // the key after which it begins; with the first if empty
}

// Paged is what lists have. Its key is its own in a list, stays the same, and says where in a list it is.
type Paged interface{ PageKey() string }

// PageOf gives the part of a list that is asked for. The list itself isn't changed.
func PageOf[T Paged](all []T, p PageRequest) []T {
	out := []T{}
	for _, v := range all {
		if v.PageKey() > p.After {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(a.PageKey(), b.PageKey()) })
	if p.Limit > 0 && len(out) > p.Limit {
		out = out[:p.Limit]
	}
	return out
}

// PageKey implements Paged: the oldest one first.
func (v TransitionView) PageKey() string { return fmt.Sprintf("%020d", v.Version) }

// PageKey implements Paged: by epochs and numbers, as ids have them.
func (v SnapshotView) PageKey() string {
	var epoch, seq uint64
	if _, err := fmt.Sscanf(v.ID, "%d-%d", &epoch, &seq); err != nil {
		return v.ID
	}
	return fmt.Sprintf("%020d-%020d", epoch, seq)
}

// PageKey implements Paged: the oldest one first.
func (v TokenView) PageKey() string {
	return v.Created.UTC().Format("2006-01-02T15:04:05.000000000") + "/" + v.ID
}

// PageKey implements Paged.
func (v HostView) PageKey() string { return string(v.Host.Host) }

// PageKey implements Paged: by tenants.
func (v TemplateView) PageKey() string { return string(v.Tenant) + "/" + v.Name }

// PageKey implements Paged.
func (v PolicyView) PageKey() string { return string(v.Scope) }

// PageKey implements Paged: by parts.
func (v ListenerView) PageKey() string { return v.Part + " " + v.Address }
