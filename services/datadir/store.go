package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// storeFile says in which object store the images of this directory's sessions
// are.
const storeFile = "store"

// ErrOtherStore: the images of the sessions are in another object store.
var ErrOtherStore = errors.New("its images are in another store")

// OwnObjects is the store in the data directory itself, by its name and as a file there.
const OwnObjects = "objects"

// UseStore remembers which object store the directory's images go to, where names
// it without credentials. Another one than before is ErrOtherStore and changes
// nothing, unless the images were moved there, or there are none: suspended sessions
// would be looked for in vain. Of a store elsewhere it isn't known that there are none.
func (d *Dir) UseStore(where string, moved bool) error {
	was, err := os.ReadFile(d.Join(storeFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("data directory %s: %w", d.path, err)
	case strings.TrimSpace(string(was)) == where:
		return nil
	case !moved && !(strings.TrimSpace(string(was)) == OwnObjects && d.empty(OwnObjects)):
		return schemas.WithHint(fmt.Errorf("data directory %s: %w: %s, not %s", d.path, ErrOtherStore, strings.TrimSpace(string(was)), where),
			"suspended sessions are there: copy its objects and say --store-moved, or go on with the old one")
	}
	if err := writeFile(d.Join(storeFile), []byte(where+"\n")); err != nil {
		return fmt.Errorf("data directory %s: remember the store: %w", d.path, err)
	}
	return nil
}

// empty reports whether there is no file below a directory.
func (d *Dir) empty(name string) bool {
	err := filepath.WalkDir(d.Join(name), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			err = fs.ErrExist
		}
		return err
	})
	return err == nil || errors.Is(err, fs.ErrNotExist)
}
