package criu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/hide"
	"github.com/diapause/diapause/workers/layer"
	"github.com/diapause/diapause/workers/rootfs"
)

// A session whose root is a container image has in its own image what that was made of: which one
// it is, and its blobs as the registry had them, in an OCI layout that other programs read.
const (
	rootPin    = "root/root.json"
	rootLayout = "root/oci-layout"
	rootIndex  = "root/index.json"
	rootBlobs  = "root/blobs/sha256/" // and a digest in hex
)

const layoutVersion = `{"imageLayoutVersion":"1.0.0"}`

var (
	_ driver.Keeper = (*Driver)(nil)
	_ driver.Rooted = (*Driver)(nil)
)

// lower is what is below a session's own files.
type lower struct {
	spec   schemas.Spec // whose Root is a directory, if it has one
	image  bool         // that was made of a container image, and nothing else of the host
	hidden []hide.Path  // of that directory
}

// lowerFor finds or makes what a session is to have below it. Without a source the session starts.
func (d *Driver) lowerFor(ctx context.Context, f driver.Fence, spec schemas.Spec, source driver.Source, boot schemas.Boot) (lower, error) {
	ref, ok := spec.RootImage()
	if !ok {
		hidden, err := d.hidden(spec)
		return lower{spec: spec, hidden: hidden}, err
	}
	u := rootfs.User{UID: f.UID, Name: f.Name, Epoch: f.Epoch, Trial: boot == schemas.BootTrial}
	root, err := d.rootFor(ctx, u, ref, source)
	if err != nil {
		return lower{}, fmt.Errorf("make the root of session %s: %w", f.Name, err)
	}
	spec = root.Config.Fill(spec)
	spec.Root = root.Tree
	if len(spec.Command) == 0 {
		err := &driver.Error{
			Kind: driver.Refused, Code: rootfs.CodeCommand, Text: fmt.Sprintf("the image %s has no command to run", ref),
			Hint: "give one: run … -- COMMAND",
		}
		return lower{}, errors.Join(err, d.roots.Release(f.UID))
	}
	return lower{spec: spec, image: true}, nil
}

func (d *Driver) rootFor(ctx context.Context, u rootfs.User, ref string, source driver.Source) (rootfs.Root, error) {
	if source == nil {
		return d.roots.Start(ctx, u, ref)
	}
	pin, err := readPin(source)
	if err != nil {
		return rootfs.Root{}, err
	}
	u.Pin = pin
	root, err := d.roots.Restore(ctx, u, rootSource{source})
	if err == nil {
		restampRoot(source)
	}
	return root, err
}

// readPin reads which root an image of a session is for.
func readPin(source driver.Source) (pin rootfs.Pin, err error) {
	r, err := openAlone(source, rootPin)
	if err != nil {
		return pin, fmt.Errorf("read which root the image is for: %w", err)
	}
	defer r.Close()
	if err := json.NewDecoder(r).Decode(&pin); err != nil {
		return pin, fmt.Errorf("read which root the image is for: %w", err)
	}
	return pin, nil
}

// rootSource are the blobs that an image of a session has.
type rootSource struct{ source driver.Source }

// Open implements rootfs.Blobs.
func (s rootSource) Open(digest v1.Hash) (io.ReadCloser, error) {
	return openAlone(s.source, rootBlobs+digest.Hex)
}

// rootStamp is the stamp of a blob: its digest proves its content.
func rootStamp(hex string) string { return "root.sha256." + hex }

// restampRoot has the next image know the blobs that this one has.
func restampRoot(source driver.Source) {
	to, ok := source.(layer.Restamped)
	if !ok {
		return
	}
	for _, e := range source.Entries() {
		if hex, ok := strings.CutPrefix(e.Name, rootBlobs); ok && e.Type == image.TypeFile {
			to.Restamp(e.Name, rootStamp(hex))
		}
	}
}

// addRoot adds what the session's root was made of, while the session runs. Only the first image
// reads it.
func (d *Driver) addRoot(ctx context.Context, sink driver.Sink, uid schemas.UID) error {
	root, ok, err := d.roots.Of(uid)
	if err != nil || !ok {
		return err
	}
	b, err := json.Marshal(root.Pin)
	if err != nil {
		return fmt.Errorf("encode which root the session has: %w", err)
	}
	blobs, err := root.Blobs()
	if err != nil {
		return err
	}
	index, err := root.Index()
	if err != nil {
		return err
	}
	err = errors.Join(addBytes(sink, rootPin, b), addBytes(sink, rootIndex, index), addBytes(sink, rootLayout, []byte(layoutVersion)))
	if err != nil {
		return err
	}
	for _, b := range blobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := addBlob(sink, b); err != nil {
			return fmt.Errorf("add the session's root to the image: %w", err)
		}
	}
	return nil
}

func addBlob(sink driver.Sink, b rootfs.Blob) error {
	e := image.Entry{Name: rootBlobs + b.Digest.Hex, Type: image.TypeFile, Mode: 0o600, Size: b.Size}
	open := func() (io.ReadCloser, error) { return os.Open(b.File) }
	if s, ok := sink.(layer.Stamped); ok {
		return s.AddStamped(e, rootStamp(b.Digest.Hex), open)
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	return sink.Add(e, r)
}

// Root implements driver.Rooted.
func (d *Driver) Root(uid schemas.UID) (*schemas.RootImage, error) {
	root, ok, err := d.roots.Of(uid)
	if err != nil || !ok {
		return nil, err
	}
	return &schemas.RootImage{Ref: root.Ref, Digest: root.Digest}, nil
}

// Release implements driver.Releaser: the session's root may go.
func (d *Driver) Release(_ context.Context, f driver.Fence) error {
	if err := d.pass(f); err != nil {
		return err
	}
	switch _, err := os.Stat(d.dir.session(f.UID)); {
	case err == nil:
		return fmt.Errorf("release the root of session %s: the session is on this host", f.Name)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("release the root of session %s: %w", f.Name, err)
	}
	return d.roots.Release(f.UID)
}

// Kept implements driver.Keeper: of which sessions there is a root.
func (d *Driver) Kept() ([]driver.Kept, error) {
	users, err := d.roots.Users()
	if err != nil {
		return nil, err
	}
	var all []driver.Kept
	for _, u := range users {
		all = append(all, driver.Kept{UID: u.UID, Name: u.Name, Epoch: u.Epoch})
	}
	return all, nil
}

// releaseTrial releases the root of a trial restore: no record has its uid, so nothing else does.
func (d *Driver) releaseTrial(uid schemas.UID) error {
	users, err := d.roots.Users()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(users, func(u rootfs.User) bool { return u.UID == uid && u.Trial }) {
		return nil
	}
	return d.roots.Release(uid)
}

// releaseTrials does so for all that a crash cut off.
func (d *Driver) releaseTrials() error {
	users, err := d.roots.Users()
	if err != nil {
		return err
	}
	for _, u := range users {
		if _, statErr := os.Stat(d.dir.session(u.UID)); u.Trial && errors.Is(statErr, fs.ErrNotExist) {
			err = errors.Join(err, d.roots.Release(u.UID))
		}
	}
	return err
}
