package snapshots

import (
	"context"
	"strings"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// base is the page index of one snapshot, kept to match the next capture
// against. It holds no page.
type base struct {
	head  schemas.Head
	pages *image.Base
}

// baseFor gives the pages of the record's head, nil if this host can't have them: then every
// page is written once more, which costs space and loses nothing.
func (s *Store) baseFor(ctx context.Context, r schemas.SessionRecord) *image.Base {
	if r.Head == nil {
		return nil
	}
	if pages := s.kept(r.UID, *r.Head); pages != nil {
		return pages
	}
	if lineage, err := LineageOf(r, *r.Head); err != nil || lineage != r.Lineage {
		return nil
	}
	img, err := s.Open(ctx, r, *r.Head)
	if err != nil {
		s.Log.Warn("could not read the last image: writing a full one", r.Logged("err", err)...)
		return nil
	}
	defer img.Close()
	pages, err := image.LoadBase(ctx, img)
	if err != nil {
		s.Log.Warn("could not read the last image: writing a full one", r.Logged("err", err)...)
		return nil
	}
	return pages
}

// kept gives the pages of a head, nil if this host hasn't kept them.
func (s *Store) kept(uid schemas.UID, head schemas.Head) *image.Base {
	s.mu.Lock()
	kept := s.bases[uid]
	s.mu.Unlock()
	if kept != nil && kept.head == head {
		return kept.pages
	}
	if s.disk == nil {
		return nil
	}
	return s.disk.get(uid, head)
}

// Keep keeps the pages of a session's new head for the next capture: in files, so that
// they take no memory while the session is suspended, or else in memory.
func (s *Store) Keep(uid schemas.UID, head schemas.Head, pages *image.Base) {
	s.Forget(uid)
	if s.disk != nil {
		err := s.disk.put(uid, pages)
		if err == nil {
			return
		}
		s.Log.Warn("keeping page ids in memory only", "uid", uid, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bases[uid] = &base{head, pages}
}

// KeepPages keeps the pages of an image that is being read, unless they are kept already,
// with what is known of the files that were made of it.
func (s *Store) KeepPages(ctx context.Context, r schemas.SessionRecord, img *image.Reader) {
	if img.Header().Lineage != r.Lineage || !img.Restamped() && s.disk != nil && s.disk.has(r.UID, img.Head()) {
		return
	}
	pages := s.kept(r.UID, img.Head())
	if pages == nil {
		var err error
		if pages, err = image.LoadBase(ctx, img); err != nil {
			return
		}
	}
	pages.Restamp(img)
	s.Keep(r.UID, img.Head(), pages)
}

// openFiles gives the place for kept pages, nil if there is none.
func (s *Store) openFiles() *pageFiles {
	if s.Pages == "" {
		return nil
	}
	key, err := image.KeptKey(s.Signer)
	if err == nil {
		var files *pageFiles
		if files, err = openPageFiles(s.Pages, key); err == nil {
			return files
		}
	}
	s.Log.Warn("keeping page ids in memory only", "err", err)
	return nil
}

// Forget drops what this host keeps of a session's images.
func (s *Store) Forget(uid schemas.UID) {
	if s.disk != nil {
		s.disk.drop(uid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bases, uid)
}

// ForgetUnknown drops what is kept of sessions that no record has any more: they may have
// been shredded while this host was down.
func (s *Store) ForgetUnknown(ctx context.Context) error {
	if s.disk == nil {
		return nil
	}
	living, complete := map[schemas.UID]bool{}, false
	watch, stop := context.WithCancel(ctx)
	defer stop()
	err := s.Records.Watch(watch, func(v statekv.Versioned) {
		if v.State != schemas.Deleted {
			living[v.UID] = true
		}
	}, func() {
		complete = true
		stop()
	})
	if err != nil || !complete {
		return err // without all of the records none is known to be missing
	}
	for _, f := range s.disk.files() {
		if uid, _, _ := strings.Cut(f.Name(), "."); !living[schemas.UID(uid)] {
			s.disk.drop(schemas.UID(uid))
		}
	}
	return nil
}
