package natsconfig

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/diapause/diapause/services/authority"
	"github.com/diapause/diapause/services/embedded"
)

// Options say what to write.
type Options struct {
	Fleet
	Dir        string   // what to write into; made with mode 0700
	Installed  string   // where Dir will be on the server; Dir if empty
	StoreDir   string   // where the server keeps its streams
	Listen     string   // host:port
	ServerName string   // "diapause" if empty
	DNSNames   []string // and addresses, by which clients connect: in the certificate
}

func (o Options) installed() string { return cmp.Or(o.Installed, o.Dir) }

// Written tells what was written.
type Written struct {
	Config string   // the server's configuration
	Creds  []string // the files of credentials of all users
	Stale  []string // files of credentials of users that aren't any more
}

// configFile is the server's configuration, below the directory.
const configFile = "nats.conf"

// Write makes the directory, or brings it up to date: keys of users and of the
// authority that are there stay, the certificate of the server is made again.
func Write(o Options) (Written, error) {
	if err := o.Validate(); err != nil {
		return Written{}, err
	}
	if len(o.DNSNames) == 0 {
		return Written{}, errors.New("missing --server-name: the certificate needs a host name or address")
	}
	o.ServerName = cmp.Or(o.ServerName, "diapause")
	creds := filepath.Join(o.Dir, "creds")
	for _, dir := range []string{o.Dir, creds} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return Written{}, fmt.Errorf("make directory: %w", err)
		}
	}
	if err := authority.Certify(o.Dir, creds, o.DNSNames, time.Now()); err != nil {
		return Written{}, err
	}
	members, w, err := enlist(creds, o.Users())
	if err != nil {
		return Written{}, err
	}
	w.Config = filepath.Join(o.Dir, configFile)
	return w, replace(w.Config, []byte(render(o, members)), 0o600)
}

// enlist gives the users their keys, and finds those that are left over.
func enlist(creds string, users []User) (members []member, w Written, err error) {
	for _, u := range users {
		key, err := embedded.PublicKey(creds, embedded.User(u.Name))
		if err != nil {
			return nil, w, err
		}
		members = append(members, member{u, key})
		w.Creds = append(w.Creds, embedded.CredsFile(creds, embedded.User(u.Name)))
	}
	files, err := filepath.Glob(filepath.Join(creds, "*.nk"))
	if err != nil {
		return nil, w, err
	}
	for _, file := range files {
		if !slices.Contains(w.Creds, file) {
			w.Stale = append(w.Stale, file)
		}
	}
	return members, w, nil
}

// replace writes a file, complete or not at all.
func replace(file string, text []byte, mode os.FileMode) error {
	tmp := file + ".tmp"
	if err := os.WriteFile(tmp, text, mode); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.Rename(tmp, file)
}
