package natsconfig

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/authority"
	"github.com/diapause/diapause/services/datadir"
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
	Monitor    string   // host:port for the server's own /healthz and figures; nowhere if empty
	Cluster    Cluster
}

// Cluster makes the configuration one that several servers share. Each has to be given a name
// of its own when it is started.
type Cluster struct {
	Name   string   // none if empty
	Listen string   // host:port for the other servers
	Routes []string // host:port of all of them
}

// hosts are the names of the servers in the routes, which their certificate has to have.
func (c Cluster) hosts() (names []string, err error) {
	for _, r := range c.Routes {
		host, port, err := net.SplitHostPort(r)
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || host == "" {
			return nil, fmt.Errorf("--route %q: want host:port", r)
		}
		names = append(names, host)
	}
	return names, nil
}

// Validate says what can't be a cluster.
func (c Cluster) Validate() error {
	switch {
	case c.Name == "" && len(c.Routes) > 0:
		return errors.New("--route: name the cluster with --cluster")
	case c.Name == "":
		return nil
	case !schemas.ValidToken(c.Name):
		return fmt.Errorf("--cluster %q: want 1 to 64 of A-Z a-z 0-9 _ -", c.Name)
	case len(c.Routes) < 2:
		return errors.New("--cluster: name each of its servers with --route, 2 at least")
	}
	_, err := c.hosts()
	return err
}

func (o Options) installed() string { return cmp.Or(o.Installed, o.Dir) }

// Written tells what was written.
type Written struct {
	Config string   // the server's configuration
	Creds  []string // the files of credentials of all users
	Log    []string // the keys of the log
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
	others, err := o.Cluster.hosts()
	if err = cmp.Or(err, o.Cluster.Validate()); err != nil {
		return Written{}, err
	}
	o.ServerName = cmp.Or(o.ServerName, "diapause")
	names := slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.DNSNames, others))))
	creds := filepath.Join(o.Dir, "creds")
	for _, dir := range []string{o.Dir, creds} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return Written{}, fmt.Errorf("make directory: %w", err)
		}
	}
	if err := authority.Certify(o.Dir, creds, names, time.Now()); err != nil {
		return Written{}, err
	}
	members, w, err := enlist(creds, o.Users())
	if err != nil {
		return Written{}, err
	}
	if w.Log, err = datadir.MakeLogKeys(creds); err != nil {
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
