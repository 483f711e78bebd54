package rootfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Blobs gives an image's manifest, config and layers by their digests. What it gives is verified
// by who reads it.
type Blobs interface {
	Open(digest v1.Hash) (io.ReadCloser, error)
}

// ofImage are the blobs of an image that was resolved.
type ofImage struct {
	image  v1.Image
	digest v1.Hash
	ref    reference
}

// Open implements Blobs.
func (o ofImage) Open(digest v1.Hash) (io.ReadCloser, error) {
	r, err := o.open(digest)
	if err != nil {
		return nil, explain(o.ref, err)
	}
	return explained{r, o.ref}, nil
}

func (o ofImage) open(digest v1.Hash) (io.ReadCloser, error) {
	if digest == o.digest {
		b, err := o.image.RawManifest()
		return io.NopCloser(bytes.NewReader(b)), err
	}
	if config, err := o.image.ConfigName(); err != nil || config == digest {
		b, rawErr := o.image.RawConfigFile()
		return io.NopCloser(bytes.NewReader(b)), errors.Join(err, rawErr)
	}
	l, err := o.image.LayerByDigest(digest)
	if err != nil {
		return nil, err
	}
	return l.Compressed()
}

// explained is a stream from a registry that says what to do when it breaks off.
type explained struct {
	io.ReadCloser
	ref reference
}

func (e explained) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = explain(e.ref, err)
	}
	return n, err
}

// making is a root that is being made in a directory of its own.
type making struct {
	dir     string
	digest  v1.Hash
	from    Blobs
	limits  limits
	room    *room
	reached func(step string) // of tests
}

// The steps of making a root.
const (
	stepFetched = "fetched" // the blobs are there
	stepLayer   = "layer"   // one of the layers is unpacked
	stepSynced  = "synced"  // all is on the disk
)

// blob copies one of the blobs, and verifies it. A size of -1 says that it isn't known.
func (m *making) blob(ctx context.Context, digest v1.Hash, size, most int64, to string) error {
	if digest.Algorithm != "sha256" {
		return damaged("the image names something by %s: only sha256 is known", digest.Algorithm)
	}
	if size > most {
		return tooLarge("a blob of %d bytes", size)
	}
	r, err := m.from.Open(digest)
	if err != nil {
		return err
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { r.Close() })
	defer stop()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep a blob of the root: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(roomy{f, m.room}, sum), io.LimitReader(r, most+1))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case n > most:
		return tooLarge("a blob of more than %d bytes", most)
	case err == nil && (size >= 0 && n != size || hex.EncodeToString(sum.Sum(nil)) != digest.Hex):
		return damaged("the image is damaged: blob %s is something else, of %d bytes", digest, n)
	case err != nil:
		return fmt.Errorf("copy the image's blob %s: %w", digest, err)
	}
	return f.Close()
}

// roomy leaves some room on the disk.
type roomy struct {
	w    io.Writer
	room *room
}

func (r roomy) Write(p []byte) (int, error) {
	if err := r.room.take(int64(len(p))); err != nil {
		return 0, err
	}
	return r.w.Write(p)
}

// make copies the blobs, and unpacks the layers.
func (m *making) make(ctx context.Context) error {
	if err := m.room.ask(0); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(m.dir, blobsDir), 0o700); err != nil {
		return fmt.Errorf("make the root's directory: %w", err)
	}
	if err := m.blob(ctx, m.digest, -1, m.limits.manifest, filepath.Join(m.dir, manifestFile)); err != nil {
		return err
	}
	manifest, err := readManifest(m.dir)
	if err != nil {
		return err
	}
	if len(manifest.Layers) > m.limits.layers {
		return tooLarge("it has %d layers", len(manifest.Layers))
	}
	if err := m.blob(ctx, manifest.Config.Digest, manifest.Config.Size, m.limits.config, blobFile(m.dir, manifest.Config.Digest)); err != nil {
		return err
	}
	config, err := readConfig(m.dir, manifest)
	if err != nil {
		return err
	}
	if len(config.RootFS.DiffIDs) != len(manifest.Layers) {
		return damaged("the image is damaged: %d layers and %d contents", len(manifest.Layers), len(config.RootFS.DiffIDs))
	}
	left := m.limits.bytes
	for i, l := range manifest.Layers {
		if slices.ContainsFunc(manifest.Layers[:i], func(before v1.Descriptor) bool { return before.Digest == l.Digest }) || l.Digest == manifest.Config.Digest {
			continue
		}
		if err := m.blob(ctx, l.Digest, l.Size, left, blobFile(m.dir, l.Digest)); err != nil {
			return err
		}
		left -= l.Size
	}
	m.reached(stepFetched)
	return m.unpack(ctx, manifest, config)
}

// unpack unpacks the layers, the lowest first.
func (m *making) unpack(ctx context.Context, manifest *v1.Manifest, config *v1.ConfigFile) error {
	tree := filepath.Join(m.dir, treeDir)
	if err := os.Mkdir(tree, 0o755); err != nil {
		return fmt.Errorf("make the root's directory: %w", err)
	}
	if err := os.Chmod(tree, 0o755); err != nil {
		return fmt.Errorf("make the root's directory: %w", err)
	}
	root, err := os.Open(tree)
	if err != nil {
		return fmt.Errorf("open the root's directory: %w", err)
	}
	defer root.Close()
	u := newUnpacker(root, m.limits, m.room)
	for i, l := range manifest.Layers {
		if err := u.layer(ctx, blobFile(m.dir, l.Digest), config.RootFS.DiffIDs[i]); err != nil {
			return fmt.Errorf("unpack layer %d of the image: %w", i+1, err)
		}
		m.reached(stepLayer)
	}
	return u.finish()
}

func readManifest(dir string) (*v1.Manifest, error) {
	f, err := os.Open(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, fmt.Errorf("read the root's manifest: %w", err)
	}
	defer f.Close()
	m, err := v1.ParseManifest(f)
	if err != nil {
		return nil, damaged("the image's manifest can't be read: %v", err)
	}
	if !m.MediaType.IsImage() && m.MediaType != "" || m.Config.Digest.Hex == "" {
		return nil, damaged("the image's manifest is none of an image, but %q", m.MediaType)
	}
	return m, nil
}

// readConfig reads the image's config, and refuses one for another machine.
func readConfig(dir string, m *v1.Manifest) (*v1.ConfigFile, error) {
	f, err := os.Open(blobFile(dir, m.Config.Digest))
	if err != nil {
		return nil, fmt.Errorf("read the root's config: %w", err)
	}
	defer f.Close()
	c, err := v1.ParseConfigFile(f)
	if err != nil {
		return nil, damaged("the image's config can't be read: %v", err)
	}
	here := machine()
	if c.Architecture != "" && c.Architecture != here.Architecture || c.OS != "" && c.OS != here.OS {
		return nil, refuse(CodeArchitecture, "", "the image is for %s/%s, and this machine is %s", c.OS, c.Architecture, here)
	}
	return c, nil
}
