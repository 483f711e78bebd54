package image

import (
	"errors"

	"github.com/diapause/diapause/objectstore"
)

// Errors that a caller can act on. All come wrapped with what happened to which
// object.
var (
	// ErrNotFound: there is no snapshot of that name.
	ErrNotFound = objectstore.ErrNotFound
	// ErrExists: the snapshot's name is taken by another one.
	ErrExists = objectstore.ErrExists
	// ErrFull: the store has no room; nothing of the image is valid.
	ErrFull = objectstore.ErrFull
	// ErrCorrupt: an object is damaged, cut short or missing, or was exchanged
	// for another. The message names it. Nothing of it has been handed out.
	ErrCorrupt = errors.New("image is damaged")
	// ErrBaseGone: a pack that the image being written refers to is gone or about to
	// be deleted. Written without a Base the image needs none.
	ErrBaseGone = errors.New("what the image refers to is being deleted")
	// ErrForged: the header is not what the caller was told to expect: not signed
	// by a trusted writer, of another session, or another snapshot in the place of
	// the one named. Nothing has been decrypted.
	ErrForged = errors.New("image is not trusted")
	// ErrNoKey: none of the identities unwraps the lineage key, or the key was
	// deleted. The image is as it was.
	ErrNoKey = errors.New("no key for the image")
)
