package worker

import (
	"context"
	"fmt"
	"strings"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// base is the page index of one snapshot, kept to match the next capture
// against. It holds no page.
type base struct {
	head  schemas.Head
	pages *image.Base
}

// baseFor gives the pages of the record's head, if this worker can have them:
// without them every page is written anew, which costs room and loses nothing.
func (w *Worker) baseFor(ctx context.Context, r schemas.SessionRecord) *image.Base {
	if r.Head == nil {
		return nil
	}
	w.mu.Lock()
	kept := w.bases[r.UID]
	w.mu.Unlock()
	if kept != nil && kept.head == *r.Head {
		return kept.pages
	}
	if lineage, err := lineageOf(r, *r.Head); err != nil || lineage != r.Lineage {
		return nil
	}
	img, err := w.openImage(ctx, r, *r.Head)
	if err != nil {
		w.Log.Warn("writing a full image: the last one can't be read", "session", r.Name().String(), "err", err)
		return nil
	}
	defer img.Close()
	pages, err := image.LoadBase(ctx, img)
	if err != nil {
		w.Log.Warn("writing a full image: the last one can't be read", "session", r.Name().String(), "err", err)
		return nil
	}
	return pages
}

// setBase keeps the pages of a new head for the next capture.
func (w *Worker) setBase(uid schemas.UID, head schemas.Head, pages *image.Base) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bases[uid] = &base{head, pages}
}

// lineageOf reads the lineage out of a head's name, and refuses one of another
// tenant.
func lineageOf(r schemas.SessionRecord, head schemas.Head) (string, error) {
	parts := strings.Split(head.Name, "/")
	if len(parts) != 4 || parts[0] != string(r.Tenant) {
		return "", fmt.Errorf("session %s: snapshot %q isn't one of tenant %s", r.Name(), head.Name, r.Tenant)
	}
	return parts[1], nil
}
