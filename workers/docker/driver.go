package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Name is what sessions call this driver.
const Name schemas.DriverName = "docker"

// Options say how the driver runs here.
type Options struct {
	// Engine is the socket of the engine, as unix:///var/run/docker.sock.
	Engine string
	// Data is the directory for what the driver remembers. It is made with mode 0700.
	Data string
	// Instance keeps what several drivers make on one engine apart: one token.
	Instance string
	// Log, if given, is told what the driver left alone for caution.
	Log *slog.Logger
	// Failpoints has something go wrong between two steps, in tests; nil is nothing.
	Failpoints *failpoint.Set
}

// Driver is the driver. Its methods may be called from several goroutines.
type Driver struct {
	options Options
	engine  *client.Client
	notes   notes
	gates   gates
	absence absence
}

var (
	_ driver.Driver      = (*Driver)(nil)
	_ driver.Watcher     = (*Driver)(nil)
	_ driver.Preflighter = (*Driver)(nil)
	_ driver.Observer    = (*Driver)(nil)
	_ driver.Keeper      = (*Driver)(nil)
	_ driver.Dialer      = (*Driver)(nil)
	_ driver.Early       = (*Driver)(nil)
	_ driver.Prober      = (*Driver)(nil)
	_ driver.Late        = (*Driver)(nil)
)

// The labels of what the driver makes.
const (
	labelHost    = "diapause.host"         // the instance
	labelUID     = "diapause.uid"          // of the session
	labelSession = "diapause.made-for"     // its name, for people
	labelFor     = "diapause.restored-for" // the uid, on a container that was there before the session and was made anew
	labelAdopt   = "diapause.session"      // of a container that wants to become a session: [tenant/]id
	labelClass   = "diapause.class"        // likewise, the session's class
	minimumAPI   = "1.41"                  // Docker 20.10
	imagePrefix  = "diapause.local/made/"  // of names of images that the driver makes
)

// New makes the driver. It doesn't ask the engine, which may be away for now.
func New(o Options) (*Driver, error) {
	if !strings.HasPrefix(o.Engine, "unix://") {
		return nil, fmt.Errorf("the engine at %q: want unix:///path/of/its/socket: layers and volumes are read where the engine keeps them, on this host", o.Engine)
	}
	if !schemas.ValidToken(o.Instance) {
		return nil, fmt.Errorf("the instance %q must be 1 to 64 of A-Z a-z 0-9 _ -", o.Instance)
	}
	if !filepath.IsAbs(o.Data) {
		return nil, fmt.Errorf("the data directory %q must be an absolute path", o.Data)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make the docker driver's directory: %w", err)
	}
	c, err := client.New(client.WithHost(o.Engine))
	if err != nil {
		return nil, fmt.Errorf("use the engine at %s: %w", o.Engine, err)
	}
	return &Driver{options: o, engine: c, notes: notes{dir: o.Data}}, nil
}

// Close lets go of the engine. Containers go on.
func (d *Driver) Close() error { return d.engine.Close() }

// Fingerprint implements driver.Driver. It is an error if the engine is away or too old.
func (d *Driver) Fingerprint(ctx context.Context) (schemas.Fingerprint, error) {
	if err := d.reach(ctx); err != nil {
		return schemas.Fingerprint{}, err
	}
	v, err := d.engine.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return schemas.Fingerprint{}, d.asked("ask for its version", err)
	}
	for _, c := range v.Components { // its networks, for one, have other names
		if strings.HasPrefix(c.Name, "Podman") {
			return schemas.Fingerprint{}, refuse("what answers at %s is Podman %s, which speaks Docker's API otherwise than Docker does: only containers of Docker's own engine can be sessions", d.options.Engine, c.Version)
		}
	}
	// Neither the kernel nor the engine has to be as new as the one that captured: what is
	// restored are files and a configuration.
	return schemas.Fingerprint{Arch: runtime.GOARCH, Driver: Name, Engine: "docker-" + v.Version}, nil
}

// reach makes sure that the engine is there and is one that can be used.
func (d *Driver) reach(ctx context.Context) error {
	p, err := d.engine.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		return d.asked("reach it", err)
	}
	if p.OSType != "" && p.OSType != "linux" {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the Docker engine at %s runs %s containers; only those of Linux can be sessions", d.options.Engine, p.OSType)}
	}
	if olderAPI(p.APIVersion, minimumAPI) {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the Docker engine at %s speaks API %s; %s (Docker 20.10) or later is needed: update it", d.options.Engine, p.APIVersion, minimumAPI)}
	}
	return nil
}

// olderAPI compares two versions of the API.
func olderAPI(a, b string) bool {
	major, minor := apiVersion(a)
	wantMajor, wantMinor := apiVersion(b)
	return major < wantMajor || major == wantMajor && minor < wantMinor
}

func apiVersion(s string) (major, minor int) {
	a, b, _ := strings.Cut(s, ".")
	major, _ = strconv.Atoi(a) // what is no number is old
	minor, _ = strconv.Atoi(b)
	return major, minor
}

// asked tells of an engine that didn't do what was asked of it, and whether trying again
// may help.
func (d *Driver) asked(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	kind := driver.Refused
	var text string
	switch {
	case client.IsErrConnectionFailed(err):
		kind, text = driver.Transient, fmt.Sprintf("the Docker engine at %s doesn't answer (is it running?); couldn't %s", d.options.Engine, what)
	case strings.Contains(err.Error(), unix.ENOSPC.Error()):
		return d.noRoom(what, err)
	case cerrdefs.IsInternal(err), cerrdefs.IsUnavailable(err):
		kind = driver.Transient
		fallthrough
	default:
		text = "the Docker engine couldn't " + what
	}
	return &driver.Error{Kind: kind, Text: text, Err: err}
}

// written tells of files that couldn't be written where the engine keeps them.
func (d *Driver) written(what string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return d.noRoom(what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (d *Driver) noRoom(what string, err error) error {
	return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the Docker engine at %s has no room left: make some and try again; couldn't %s", d.options.Engine, what), Err: err}
}

// ownLabels are those that the driver gives, and no part of a container's configuration.
var ownLabels = []string{labelHost, labelUID, labelSession, labelFor}

func missing(err error) bool { return cerrdefs.IsNotFound(err) }

// undoing gives the context for putting things back after ctx has ended.
func undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoTime)
}
