package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/diapause/diapause/schemas"
)

// What a caller can act on; match with errors.Is.
var (
	// ErrInUse: another process uses the directory.
	ErrInUse = errors.New("it is in use")
	// ErrAccess: the directory or a key belongs to another user, can't be read,
	// or is open to others.
	ErrAccess = errors.New("its owner or mode is wrong")
	// ErrForeign: the directory holds something else.
	ErrForeign = errors.New("it is not a data directory of Diapause")
	// ErrNewer: a newer Diapause wrote the directory.
	ErrNewer = errors.New("a newer Diapause made it")
	// ErrKeyMissing: a key that the first start made is gone.
	ErrKeyMissing = errors.New("a key is missing")
	// ErrOtherHost: the directory is that of another host.
	ErrOtherHost = errors.New("it belongs to another host")
	// ErrNotRunning: no server runs on the directory.
	ErrNotRunning = errors.New("no `diapause up` runs there")
)

// Dir is an open data directory. It is locked until Close, or until the process
// ends.
type Dir struct {
	path    string
	lock    *os.File
	host    schemas.HostID
	started time.Time
	web     string // of the gateway, for browsers

	absent  bool // the directory was not there before Open
	unknown bool // nothing was in it before Open, and nothing but this process knows of it
}

// Open takes the data directory at path, for the host of an id, and makes it, with its keys, if it is
// not there or empty. A new directory gets the id, or makes one up without it; one of another host is ErrOtherHost.
// Its errors match the kinds above; after an error nothing was changed.
func Open(path string, host schemas.HostID) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	d := &Dir{path: path, started: time.Now().UTC().Truncate(time.Second)}
	if err := d.open(host); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	return d, nil
}

func (d *Dir) open(host schemas.HostID) error {
	entries, err := os.ReadDir(d.path)
	d.absent = errors.Is(err, fs.ErrNotExist)
	d.unknown = d.absent || err == nil && len(entries) == 0
	err = os.MkdirAll(d.path, 0o700)
	if errors.Is(err, fs.ErrPermission) {
		return schemas.WithHint(fmt.Errorf("%w: you may not make or enter it (%w)", ErrAccess, err), "use sudo, or choose another with --data")
	}
	if err != nil {
		return err
	}
	// Before the lock file is made: a directory that is refused stays as it was.
	fresh, err := examine(d.path)
	if err != nil {
		return err
	}
	if err := checkAccess(d.path, fresh); err != nil {
		return err
	}
	if d.lock, err = takeLock(d.path, Up{PID: os.Getpid(), Started: d.started}); err != nil {
		return err
	}
	if err := d.prepare(host); err != nil {
		return errors.Join(err, d.lock.Close())
	}
	return nil
}

// prepare finishes the first start, or reads what it made.
func (d *Dir) prepare(host schemas.HostID) error {
	// Once more, since another process may have had the lock meanwhile.
	fresh, err := examine(d.path)
	if err != nil {
		return err
	}
	if err := mayBeOf(d.path, host); err != nil {
		return err
	}
	if fresh {
		if err := initialise(d.path, host); err != nil {
			return fmt.Errorf("set it up: %w", err)
		}
	}
	if err := removeIfThere(d.Join(upFile)); err != nil {
		return err // the notice of one that crashed
	}
	d.host, err = readHost(d.path)
	return err
}

// mayBeOf refuses the directory of another host than the given one, if one is given.
func mayBeOf(path string, host schemas.HostID) error {
	if _, err := os.Lstat(filepath.Join(path, hostFile)); host == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	is, err := readHost(path)
	if err == nil && is != host {
		return schemas.WithHint(fmt.Errorf("%w: %s, not %s", ErrOtherHost, is, host), "choose another directory with --data, or leave out --host-id")
	}
	return err
}

// Close takes back the notice for clients and lets others use the directory.
func (d *Dir) Close() error {
	return errors.Join(removeIfThere(d.Join(upFile)), d.lock.Truncate(0), d.lock.Close())
}

// Path gives the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// Join gives the path of a file or directory in it.
func (d *Dir) Join(elem ...string) string { return filepath.Join(append([]string{d.path}, elem...)...) }

// Host gives the id that this host keeps for good.
func (d *Dir) Host() schemas.HostID { return d.host }

// Keep has Discard keep the directory: another process or machine knows of its keys.
func (d *Dir) Keep() { d.unknown = false }

// Discard is Close after a start that failed. If the directory was empty before Open, and
// Keep wasn't called, all in it is removed, and the directory if Open has made it.
func (d *Dir) Discard() error {
	if !d.unknown {
		return d.Close()
	}
	entries, err := os.ReadDir(d.path)
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(d.Join(e.Name())))
	}
	if d.absent {
		errs = append(errs, os.Remove(d.path))
	}
	return errors.Join(append(errs, d.lock.Close())...)
}

// NewKeys reports whether Open, now or at a start that failed, has made the keys of the
// directory, and KeysShown was not called since: the person has to be told to back them up.
func (d *Dir) NewKeys() bool {
	_, err := os.Lstat(d.Join(keysDir, newKeysFile))
	return err == nil
}

// KeysShown records that the person was told to back up the keys.
func (d *Dir) KeysShown() error { return removeIfThere(d.Join(keysDir, newKeysFile)) }

// Web has the next notice for clients say at which URL browsers reach the gateway.
func (d *Dir) Web(url string) { d.web = url }

// Serving leaves the notice for clients that the server takes connections at
// url, or without credentials at publicURL, and that clientCreds is the file with their
// credentials ("" for none).
func (d *Dir) Serving(url, publicURL, clientCreds string) error {
	up := Up{URL: url, PublicURL: publicURL, PID: os.Getpid(), Host: d.host, Started: d.started, ClientCreds: clientCreds, Web: d.web}
	if err := writeHolder(d.lock, up); err != nil {
		return fmt.Errorf("say in %s where the server is: %w", d.Join(lockFile), err)
	}
	if err := writeNotice(d.path, up); err != nil {
		return fmt.Errorf("say in %s where the server is: %w", d.Join(upFile), err)
	}
	return nil
}

// checkAccess: the directory has to be ours alone. A fresh one is made so.
func checkAccess(path string, fresh bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if int(owner) != os.Geteuid() {
		return schemas.WithHint(fmt.Errorf("%w: it belongs to %s and you are %s", ErrAccess, userName(owner), userName(uint32(os.Geteuid()))),
			"run as its owner, or choose another with --data")
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if fresh {
		return os.Chmod(path, 0o700)
	}
	return schemas.WithHint(fmt.Errorf("%w: others may enter it (mode %04o), and it holds keys", ErrAccess, info.Mode().Perm()),
		"`chmod 700 %s`, and replace the keys if others may have read them", path)
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user " + id
}

func removeIfThere(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
