package rootfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// The names of what is in a Store, and in a root.
const (
	manifestFile = "manifest"
	blobsDir     = "blobs"
	treeDir      = "tree"
	usersDir     = "users"
	newPrefix    = "new-"
	oldPrefix    = "old-"
	rootPrefix   = "sha256-"
)

func blobFile(dir string, digest v1.Hash) string { return filepath.Join(dir, blobsDir, digest.Hex) }

// Store has the roots of one host. Its methods may be called from several goroutines, and several
// processes may have one open.
type Store struct {
	dir     string
	engine  string // as Open has it
	limits  limits
	reached func(step string) // of tests
}

// Open removes what a crash left in a store. The store's directory is made when the first root is.
// engine is the address of the host's Docker engine, "none" if it is to use none, and "" for the one
// that DOCKER_HOST names, or the default one.
func Open(dir, engine string) (*Store, error) {
	s := &Store{dir: dir, engine: engine, limits: usual, reached: func(string) {}}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("tidy up the roots in %s: %w", dir, err)
	}
	return s, nil
}

// Pin is which image a root is of.
type Pin struct {
	Ref    string `json:"ref"`    // as it was given
	Digest string `json:"digest"` // of the manifest for this machine
}

func (p Pin) hash() (v1.Hash, error) {
	h, err := v1.NewHash(p.Digest)
	if err != nil || h.Algorithm != "sha256" {
		return h, damaged("the root has no digest, but %q", p.Digest)
	}
	return h, nil
}

// User is a session that uses a root.
type User struct {
	UID   schemas.UID  `json:"uid"`
	Name  schemas.Name `json:"name"`
	Epoch uint64       `json:"epoch"`
	Pin   Pin          `json:"pin"`
	Trial bool         `json:"trial,omitempty"` // it is only tried whether an image can be restored
}

// Root is one that is unpacked.
type Root struct {
	Pin
	Tree   string // its directory
	Config Config

	dir string
}

// Start finds the image that a reference names now, and unpacks it for a user, unless the host has
// it. After an error the user has no root.
func (s *Store) Start(ctx context.Context, u User, ref string) (Root, error) {
	r, err := parse(ref)
	if err != nil {
		return Root{}, err
	}
	if digest, ok := r.pinned(); ok && s.has(digest) {
		u.Pin = Pin{ref, digest.String()}
		return s.use(ctx, u, nil)
	}
	if err := s.prepare(); err != nil {
		return Root{}, err
	}
	scratch, done, err := s.temporary()
	if err != nil {
		return Root{}, err
	}
	defer done()
	img, digest, err := s.resolve(ctx, r, scratch)
	if err != nil {
		return Root{}, err
	}
	u.Pin = Pin{ref, digest.String()}
	return s.use(ctx, u, ofImage{img, digest, r})
}

// Restore unpacks the root that a user had elsewhere, unless the host has it. After an error the
// user has no root.
func (s *Store) Restore(ctx context.Context, u User, from Blobs) (Root, error) {
	return s.use(ctx, u, from)
}

// use notes the user first, so that the root isn't removed again.
func (s *Store) use(ctx context.Context, u User, from Blobs) (Root, error) {
	digest, err := u.Pin.hash()
	if err != nil {
		return Root{}, err
	}
	if err := s.prepare(); err != nil {
		return Root{}, err
	}
	if err := s.enter(u); err != nil {
		return Root{}, err
	}
	root, err := s.ensure(ctx, u.Pin, digest, from)
	if err != nil {
		return Root{}, errors.Join(err, s.Release(u.UID))
	}
	return root, nil
}

// Of gives the root of a user; false if it has none.
func (s *Store) Of(uid schemas.UID) (Root, bool, error) {
	u, err := s.user(uid)
	if errors.Is(err, fs.ErrNotExist) {
		return Root{}, false, nil
	}
	if err != nil {
		return Root{}, false, err
	}
	root, err := s.read(u.Pin)
	return root, err == nil, err
}

func (s *Store) path(digest v1.Hash) string { return filepath.Join(s.dir, rootPrefix+digest.Hex) }

func (s *Store) has(digest v1.Hash) bool {
	_, err := os.Stat(s.path(digest))
	return err == nil
}

// read gives a root that is there.
func (s *Store) read(p Pin) (Root, error) {
	digest, err := p.hash()
	if err != nil {
		return Root{}, err
	}
	dir := s.path(digest)
	manifest, err := readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Root{}, refuse(CodeMissing, "", "the root %s isn't in %s any more", p.Digest, s.dir)
	}
	if err != nil {
		return Root{}, err
	}
	config, err := readConfig(dir, manifest)
	if err != nil {
		return Root{}, err
	}
	return Root{Pin: p, Tree: filepath.Join(dir, treeDir), Config: configOf(config.Config), dir: dir}, nil
}

// ensure unpacks a root if it isn't there. It waits for others that do.
func (s *Store) ensure(ctx context.Context, p Pin, digest v1.Hash, from Blobs) (Root, error) {
	if s.has(digest) {
		return s.read(p)
	}
	lock, err := s.lock(ctx, filepath.Join("locks", digest.Hex))
	if err != nil {
		return Root{}, err
	}
	defer lock.Close()
	if s.has(digest) {
		return s.read(p)
	}
	if from == nil {
		return Root{}, refuse(CodeMissing, "", "the root %s isn't in %s any more", p.Digest, s.dir)
	}
	if err := s.make(ctx, digest, from); err != nil {
		return Root{}, full(err, s.dir)
	}
	return s.read(p)
}

// make makes a root in a temporary directory, and gives it its name when all is on the disk.
func (s *Store) make(ctx context.Context, digest v1.Hash, from Blobs) error {
	dir, done, err := s.temporary()
	if err != nil {
		return err
	}
	defer done()
	m := &making{dir: dir, digest: digest, from: from, limits: s.limits, room: &room{dir: s.dir}, reached: s.reached}
	if err := m.make(ctx); err != nil {
		return err
	}
	if err := syncFS(dir); err != nil {
		return fmt.Errorf("write the root to the disk: %w", err)
	}
	s.reached(stepSynced)
	if err := os.Rename(dir, s.path(digest)); err != nil {
		return fmt.Errorf("put the root in its place: %w", err)
	}
	return nil
}

func syncFS(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

// prepare makes the store's directories.
func (s *Store) prepare() error {
	for _, dir := range []string{s.dir, filepath.Join(s.dir, usersDir), filepath.Join(s.dir, "locks")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the directory for roots: %w", full(err, dir))
		}
	}
	return nil
}

// temporary makes a directory that nothing else removes before done is called, or this process
// ends. done removes it, if it has no other name by then.
func (s *Store) temporary() (dir string, done func(), err error) {
	lock, err := s.lock(context.Background(), "lock") // or a sweep could come between
	if err != nil {
		return "", nil, err
	}
	defer lock.Close()
	dir, err = os.MkdirTemp(s.dir, newPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for the root: %w", full(err, s.dir))
	}
	held, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(held.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("hold the root's directory: %w", err), os.Remove(dir))
	}
	return dir, func() {
		// What can't be removed now the next Open removes.
		_ = os.RemoveAll(dir)
		held.Close()
	}, nil
}

// lock waits for a file's flock.
func (s *Store) lock(ctx context.Context, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the roots: %w", full(err, s.dir))
	}
	got := make(chan error, 1)
	go func() { got <- flock(f) }()
	select {
	case err = <-got:
	case <-ctx.Done():
		go func() { // a thread that waits for an flock is told of nothing else
			<-got
			f.Close()
		}()
		return nil, context.Cause(ctx)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the roots: %w", err)
	}
	return f, nil
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

func (s *Store) userFile(uid schemas.UID) string {
	return filepath.Join(s.dir, usersDir, string(uid)+".json")
}

func (s *Store) user(uid schemas.UID) (User, error) {
	var u User
	b, err := os.ReadFile(s.userFile(uid))
	if err != nil {
		return u, fmt.Errorf("read which root session %s uses: %w", uid, err)
	}
	if err := json.Unmarshal(b, &u); err != nil {
		return u, fmt.Errorf("read which root session %s uses: %w", uid, err)
	}
	return u, nil
}

// enter notes a user. If it had another root, that may be removed.
func (s *Store) enter(u User) error {
	b, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encode which root session %s uses: %w", u.Name, err)
	}
	return s.change(func() error { return writeFile(s.userFile(u.UID), b) })
}

// writeFile puts a file in the place of another.
func writeFile(name string, b []byte) error {
	fresh := name + ".new"
	if err := writeSynced(fresh, b); err != nil {
		// What can't be removed now is written over the next time.
		_ = os.Remove(fresh)
		return fmt.Errorf("note which root a session uses: %w", full(err, filepath.Dir(name)))
	}
	return os.Rename(fresh, name)
}

func writeSynced(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// Release says that a session doesn't need its root any more. A root that no session needs is
// removed.
func (s *Store) Release(uid schemas.UID) error {
	if _, err := os.Stat(s.userFile(uid)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.change(func() error {
		if err := os.Remove(s.userFile(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("release the root of session %s: %w", uid, err)
		}
		return nil
	})
}

// Users lists the sessions that use a root.
func (s *Store) Users() ([]User, error) {
	names, err := filepath.Glob(filepath.Join(s.dir, usersDir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list the users of roots: %w", err)
	}
	var all []User
	for _, name := range names {
		u, err := s.user(schemas.UID(strings.TrimSuffix(filepath.Base(name), ".json")))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was released meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

// change changes the users, and removes the roots that none uses then.
func (s *Store) change(do func() error) error {
	lock, err := s.lock(context.Background(), "lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := do(); err != nil {
		return err
	}
	return s.tidy()
}

func (s *Store) sweep() error { return s.change(func() error { return nil }) }

// tidy removes the roots without a user, and what a crash left. The caller holds the lock.
func (s *Store) tidy() error {
	users, usersErr := s.Users() // without knowing all, all roots stay
	used := map[string]bool{}
	for _, u := range users {
		used[strings.Replace(u.Pin.Digest, ":", "-", 1)] = true
	}
	names, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		name := filepath.Join(s.dir, n.Name())
		switch {
		case strings.HasPrefix(n.Name(), rootPrefix) && !used[n.Name()] && usersErr == nil:
			old := filepath.Join(s.dir, oldPrefix+n.Name())
			if err := os.Rename(name, old); err != nil {
				return err
			}
			err = os.RemoveAll(old)
		case strings.HasPrefix(n.Name(), oldPrefix):
			err = os.RemoveAll(name)
		case strings.HasPrefix(n.Name(), newPrefix):
			err = removeUnheld(name)
		}
		if err != nil {
			return fmt.Errorf("remove a root: %w", err)
		}
	}
	return nil
}

// removeUnheld removes a temporary directory whose maker has ended.
func removeUnheld(name string) error {
	d, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // it is being made
	}
	return os.RemoveAll(name)
}
