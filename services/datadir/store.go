package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// storeFile says in which object store the images of this directory's sessions
// are.
const storeFile = "store"

// ErrOtherStore: the images of the sessions are in another object store.
var ErrOtherStore = errors.New("its images are in another store")

// UseStore remembers which object store the directory's images go to, where names
// it without credentials. Another one than before is ErrOtherStore and changes
// nothing, unless the images were moved there: suspended sessions would be looked
// for in vain.
func (d *Dir) UseStore(where string, moved bool) error {
	was, err := os.ReadFile(d.Join(storeFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("data directory %s: %w", d.path, err)
	case strings.TrimSpace(string(was)) == where:
		return nil
	case !moved:
		return fmt.Errorf("data directory %s: %w: %s, not %s; suspended sessions are there: copy its objects and say --store-moved, or go on with the old one", d.path, ErrOtherStore, strings.TrimSpace(string(was)), where)
	}
	if err := writeFile(d.Join(storeFile), []byte(where+"\n")); err != nil {
		return fmt.Errorf("data directory %s: remember the store: %w", d.path, err)
	}
	return nil
}
