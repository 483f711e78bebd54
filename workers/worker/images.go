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
	if pages := w.kept(r.UID, *r.Head); pages != nil {
		return pages
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

// kept gives the pages of a head, if this worker has kept them.
func (w *Worker) kept(uid schemas.UID, head schemas.Head) *image.Base {
	w.mu.Lock()
	kept := w.bases[uid]
	w.mu.Unlock()
	if kept != nil && kept.head == head {
		return kept.pages
	}
	if w.shelf == nil {
		return nil
	}
	return w.shelf.get(uid, head)
}

// setBase keeps the pages of a new head for the next capture: on the shelf, so that
// they take no memory while the session sleeps, or else in memory.
func (w *Worker) setBase(uid schemas.UID, head schemas.Head, pages *image.Base) {
	w.dropPages(uid)
	if w.shelf != nil {
		err := w.shelf.put(uid, pages)
		if err == nil {
			return
		}
		w.Log.Warn("what the next image is matched against is kept in memory alone", "session", uid, "err", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bases[uid] = &base{head, pages}
}

// loadPages keeps the pages of an image that is being read, unless they are kept
// already, with what is known of the files that were made of it.
func (w *Worker) loadPages(ctx context.Context, r schemas.SessionRecord, img *image.Reader) {
	if img.Header().Lineage != r.Lineage || !img.Restamped() && w.shelf != nil && w.shelf.has(r.UID, img.Head()) {
		return
	}
	pages := w.kept(r.UID, img.Head())
	if pages == nil {
		var err error
		if pages, err = image.LoadBase(ctx, img); err != nil {
			return
		}
	}
	pages.Restamp(img)
	w.setBase(r.UID, img.Head(), pages)
}

// openShelf gives the place for kept pages, nil if there is none.
func (w *Worker) openShelf() *pageShelf {
	if w.Pages == "" {
		return nil
	}
	key, err := image.KeptKey(w.Signer)
	if err == nil {
		var s *pageShelf
		if s, err = openShelf(w.Pages, key); err == nil {
			return s
		}
	}
	w.Log.Warn("what images are matched against is kept in memory alone", "err", err)
	return nil
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
