package snapshots

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// pageFiles keeps the page ids of sessions' last images in a directory of this
// host's own, encrypted and authenticated with a key that only this host has. With
// them it matches the next capture without being able to read any image, also after a
// restart. A file that is lost or damaged costs only a full image, so nothing is synced
// and that isn't an error.
//
// Files are <uid>.<head's digest>.ids, one for each session. Only the session's actor
// reads and writes its file.
type pageFiles struct {
	dir   string
	key   []byte
	limit int64 // bytes of all files; those not used for longest go first
}

// filesLimit bounds what is kept, in bytes: sessions of 32 GB altogether.
const filesLimit = 256 << 20

func openPageFiles(dir string, key []byte) (*pageFiles, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for page ids: %w", err)
	}
	return &pageFiles{dir: dir, key: key, limit: filesLimit}, nil
}

func (s *pageFiles) file(uid schemas.UID, head schemas.Head) string {
	return filepath.Join(s.dir, string(uid)+"."+head.Digest+".ids")
}

// has reports whether the pages of a snapshot are there.
func (s *pageFiles) has(uid schemas.UID, head schemas.Head) bool {
	_, err := os.Stat(s.file(uid, head))
	return err == nil
}

// get gives the pages of a snapshot, nil if they aren't there. A file that isn't
// what this host put there is removed.
func (s *pageFiles) get(uid schemas.UID, head schemas.Head) *image.Base {
	name := s.file(uid, head)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	base, err := image.RestoreBase(data, s.key)
	if err != nil || base.Head() != head {
		_ = os.Remove(name) // it would be refused again, that is all
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(name, now, now) // else it goes earlier than it must
	return base
}

// put keeps the pages of a session's newest snapshot in the place of older ones.
func (s *pageFiles) put(uid schemas.UID, base *image.Base) error {
	if !schemas.ValidToken(string(uid)) {
		return fmt.Errorf("keep page ids: invalid uid %.70q", uid)
	}
	data, err := base.Keep(s.key)
	if err != nil {
		return err
	}
	s.drop(uid)
	if int64(len(data)) > s.limit {
		return fmt.Errorf("keep page ids: %d bytes are more than all may have", len(data))
	}
	s.makeRoom(s.limit - int64(len(data)))
	f, err := os.CreateTemp(s.dir, string(uid)+".*.tmp")
	if err != nil {
		return fmt.Errorf("keep page ids: %w", err)
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), s.file(uid, base.Head()))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what stays goes with the next one of the session
		return fmt.Errorf("keep page ids: %w", err)
	}
	return nil
}

// drop removes all that is kept of a session.
func (s *pageFiles) drop(uid schemas.UID) {
	for _, f := range s.files() {
		if owner, _, _ := strings.Cut(f.Name(), "."); owner == string(uid) {
			_ = os.Remove(filepath.Join(s.dir, f.Name())) // another may have been first
		}
	}
}

func (s *pageFiles) files() []fs.FileInfo {
	entries, _ := os.ReadDir(s.dir) // unreadable: nothing is kept
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
		}
	}
	return files
}

// makeRoom removes what wasn't used for longest, until no more than room bytes
// are left.
func (s *pageFiles) makeRoom(room int64) {
	files := s.files()
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, f := range files {
		if room -= f.Size(); room < 0 {
			_ = os.Remove(filepath.Join(s.dir, f.Name())) // the next one tries again
		}
	}
}
