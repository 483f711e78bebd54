package run

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"

	"github.com/diapause/diapause/events/keykv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
	keyring "github.com/diapause/diapause/services/keys"
	"github.com/diapause/diapause/workers/snapshots"
)

// API answers clients, places sessions and keeps house until ctx ends. It decides about no
// session and runs none.
func API(ctx context.Context, c APIConfig) error {
	return watched(ctx, c.Process, func(ctx context.Context, m gauges) error { return c.serve(ctx, m) })
}

func (c APIConfig) serve(ctx context.Context, m gauges) (err error) {
	name, err := partName(c.Name, "api")
	if err != nil {
		return err
	}
	at, err := Locate(c.Store, "", c.Log)
	if err != nil {
		return err
	}
	ids, err := identities(c.IdentityFiles)
	if err != nil {
		return err
	}
	logKeys, err := datadir.ReadLogKeys(c.NATS.Creds)
	if err != nil {
		return err
	}
	ctx, g := guarded(ctx, "an API", "api", c.NATS.Creds, c.Log)
	defer func() { err = g.why(ctx, err) }()
	nc, err := connect(ctx, c.NATS, "diapause api "+name, c.Log, g.option())
	if err != nil {
		return err
	}
	defer nc.Close()
	m.nats(nc)
	l, err := joined(ctx, nc, c.Process, m)
	if err != nil {
		return err
	}
	if l.points, err = failpoints(c.Log); err != nil {
		return err
	}
	images, err := at.opened(ctx)
	if err != nil {
		return err
	}
	parts, serving, err := c.parts(ctx, m, l, name, m.store(images), ids, logKeys)
	if err != nil {
		return err
	}
	run, ctx := errgroup.WithContext(ctx)
	for _, part := range serving {
		run.Go(func() error { return part(ctx) })
	}
	run.Go(func() error {
		for _, ready := range []<-chan struct{}{parts.scheduler.Ready(), parts.api.Ready()} {
			select {
			case <-ready:
			case <-ctx.Done():
				return nil
			}
		}
		if err := g.heard(nc); err != nil {
			return err
		}
		g.through()
		m.started()
		fmt.Fprintf(c.Out, "ready: api %s, %s\n", name, nc.ConnectedUrlRedacted())
		return nil
	})
	return run.Wait()
}

// parts makes what answers clients, and lists what is to run.
func (c APIConfig) parts(ctx context.Context, m gauges, l link, name string, images objectstore.Store, ids []age.Identity, logKeys datadir.LogKeys) (control, []func(context.Context) error, error) {
	store, err := keykv.Open(ctx, l.js, l.names)
	if err != nil {
		return control{}, nil, err
	}
	if logKeys.Signer != nil {
		if err := keyring.RegisterLog(ctx, store, logKeys.Signer.Public().(ed25519.PublicKey), "api@"+name); err != nil {
			return control{}, nil, err
		}
	}
	ring := keyring.NewRing(store)
	if _, err := ring.Refresh(ctx, ""); err != nil {
		return control{}, nil, err
	}
	keeper := keyring.NewKeeper(keyring.Options{
		Ring: ring, Records: l.records, Images: images, Identities: ids, Host: schemas.HostID(name), Log: c.Log,
	})
	parts, err := ruling{
		link: l, gauges: m, log: c.Log, version: c.Version, of: c.Control, name: name, images: images, keeper: keeper, identities: ids,
		logKeys: logKeys, signs: keyring.LogWriter,
		reader: imageReader{snapshots.New(snapshots.Options{
			Host: schemas.HostID(name), Objects: images, Records: l.records, Log: c.Log, Identities: ids, Keyring: keeper,
		})},
		scheduler: schedulerOn(c.Process, m, l, name, standby{}),
	}.control(ctx)
	if err != nil {
		return control{}, nil, err
	}
	m.ofControl(parts)
	serving := append(parts.serving(), ring.Serve, l.policies.Serve, func(ctx context.Context) error { return backwards(ctx, l.js, l.names) })
	if len(ids) > 0 {
		serving = append(serving, keeper.Serve) // else the hosts look after the keys
	}
	return parts, serving, nil
}

func identities(files []string) (all []age.Identity, err error) {
	for _, file := range files {
		ids, err := datadir.LoadIdentities(file)
		if err != nil {
			return nil, err
		}
		all = slices.Concat(all, ids)
	}
	return all, nil
}

// standby is the lead of a scheduler that knows all that the others do, and never acts.
type standby struct{}

func (standby) Serve(ctx context.Context, _ func(bool)) error {
	<-ctx.Done()
	return nil
}

// imageReader reads images where no session runs.
type imageReader struct{ *snapshots.Store }

// OpenImage implements api.Reader.
func (r imageReader) OpenImage(ctx context.Context, s schemas.SessionRecord, head schemas.Head) (*image.Reader, error) {
	if len(r.Identities) == 0 {
		return nil, schemas.StateError(schemas.ReasonKey, "this `diapause api` has no key that opens images").
			WithHint("start it with --identity-file of a reader (`diapause key ls`), if it is to read them")
	}
	return r.Open(ctx, s, head)
}

// TryImage implements api.Reader.
func (imageReader) TryImage(context.Context, schemas.SessionRecord, *image.Reader) error {
	return schemas.StateError(schemas.ReasonNoHost, "a `diapause api` runs no session, not even for a trial").
		WithHint("leave out --restore: all of the image is read and compared even so")
}
