package criu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/confine"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer/ext4"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/publish"
	"github.com/diapause/diapause/workers/rootfs"
	"github.com/diapause/diapause/workers/shim"
)

// Start runs a new session.
func (d *Driver) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	if err := d.pass(f); err != nil {
		return driver.Instance{}, err
	}
	if err := checkSpec(spec); err != nil {
		return driver.Instance{}, err
	}
	if err := d.shims.vacant(f); err != nil {
		return driver.Instance{}, err
	}
	below, err := d.lowerFor(ctx, f, spec, nil, schemas.BootClean)
	if err != nil {
		return driver.Instance{}, err
	}
	state, err := d.start(ctx, f, below, begin)
	if err != nil {
		err = d.shims.undone(ctx, f, err)
		if below.image && driver.KindOf(err) != driver.Broken {
			err = errors.Join(err, d.roots.Release(f.UID))
		}
		return driver.Instance{}, err
	}
	d.watchers.add(f.UID)
	return instanceOf(*state, false), nil
}

func (d *Driver) start(ctx context.Context, f driver.Fence, below lower, begin func(context.Context) error) (*shim.State, error) {
	conn, err := d.shims.launch(f, below, schemas.BootClean, d.layerFor(below.spec, nil))
	if err != nil {
		return nil, err
	}
	// Closed before it said that the session runs, it makes the shim undo all.
	defer conn.Close()
	return converse(ctx, conn, f, begin)
}

// networks are the kinds of network that a session may have; none given is the host's.
var networks = []string{"", schemas.NetworkPrivate, schemas.NetworkHost, schemas.NetworkNone}

// checkSpec refuses what can't work before anything is made.
func checkSpec(s schemas.Spec) error {
	ref, isImage := s.RootImage()
	if isImage {
		if err := rootfs.Check(ref); err != nil {
			return err
		}
	}
	switch {
	case len(s.Command) == 0 && !isImage:
		return &driver.Error{Kind: driver.Refused, Text: "there is no command to run"}
	case !slices.Contains(networks, s.Network):
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the network %q is none of private, host, none", s.Network)}
	case len(s.AllowOut) > 0 && s.Network != schemas.NetworkPrivate:
		return &driver.Error{Kind: driver.Refused, Text: "only a private network has a list of what it may reach"}
	case s.Memory < 0 || s.CPUs < 0 || s.Pids < 0 || s.Disk < 0:
		return &driver.Error{Kind: driver.Refused, Text: "a limit is negative"}
	case s.Disk > ext4.Largest:
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("a disk of %s is too large: %s at most", schemas.Bytes(s.Disk), schemas.Bytes(ext4.Largest))}
	}
	if s.RecordKeep != 0 && s.RecordKeep < schemas.MinRecordKeep {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("%d bytes of a recording can't be kept: at least %d", s.RecordKeep, schemas.MinRecordKeep)}
	}
	if s.Record != "" && !slices.Contains(schemas.Records, s.Record) {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("%.40q is nothing that is recorded", s.Record)}
	}
	if !slices.Contains([]string{"", schemas.On, schemas.Off}, s.ShellIntegration) {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the shell integration %.40q is none of on, off", s.ShellIntegration)}
	}
	if _, err := network.ParseAllow(s.AllowOut); err != nil {
		return refuse(err)
	}
	if len(s.Publish) > 0 && s.Network != schemas.NetworkPrivate {
		return &driver.Error{Kind: driver.Refused, Text: "only a private network has ports to publish"}
	}
	if _, err := publish.Parse(s.Publish); err != nil {
		return refuse(err)
	}
	if _, err := confine.Of(s); err != nil {
		return refuse(err)
	}
	return nil
}

// refuse says that a spec is wrong.
func refuse(err error) error { return &driver.Error{Kind: driver.Refused, Text: err.Error()} }
