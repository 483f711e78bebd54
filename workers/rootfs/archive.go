package rootfs

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// fromTar opens a tar that has one image.
func fromTar(r reference, file string) (v1.Image, error) {
	opener := func() (io.ReadCloser, error) { return os.Open(file) }
	m, err := tarball.LoadManifest(opener)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	if err != nil {
		return nil, damaged("%s is no archive of \"docker save\": %v", r.text, err)
	}
	if len(m) != 1 {
		return nil, refuse(CodeReference, "save the one alone", "%s has %d images", r.text, len(m))
	}
	img, err := tarball.Image(opener, nil)
	if err != nil {
		return nil, damaged("%s is no archive of \"docker save\": %v", r.text, err)
	}
	sizes, err := plainSizes(file, m[0].Layers)
	if err != nil {
		return nil, damaged("%s is no archive of \"docker save\": %v", r.text, err)
	}
	if sizes == nil {
		return img, nil
	}
	return newUncompressed(img, sizes)
}

// plainSizes gives the sizes of the layers of an archive if none is compressed, or is a link to
// another.
func plainSizes(file string, layers []string) ([]int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found := map[string]int64{}
	for archive := tar.NewReader(f); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		magic := make([]byte, 4)
		n, err := io.ReadFull(archive, magic)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg && !isGzip(magic[:n]) && !isZstd(magic[:n]) {
			found[h.Name] = h.Size
		}
	}
	var sizes []int64
	for _, name := range layers {
		size, ok := found[name]
		if !ok {
			return nil, nil
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

// uncompressed is an image whose layers are kept as an archive has them. To compress them first,
// for a manifest as a registry would have it, takes most of the time of a start.
type uncompressed struct {
	v1.Image
	manifest []byte
	layers   map[v1.Hash]v1.Layer
}

func newUncompressed(img v1.Image, sizes []int64) (v1.Image, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) != len(sizes) {
		return nil, damaged("the image is damaged: %d layers and %d contents", len(sizes), len(layers))
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	id, n, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: n, Digest: id}, Layers: []v1.Descriptor{},
	}
	u := uncompressed{Image: img, layers: map[v1.Hash]v1.Layer{}}
	for i, l := range layers {
		content, err := l.DiffID()
		if err != nil {
			return nil, err
		}
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.OCIUncompressedLayer, Size: sizes[i], Digest: content})
		u.layers[content] = plainLayer{l}
	}
	if u.manifest, err = json.Marshal(m); err != nil {
		return nil, fmt.Errorf("encode the image's manifest: %w", err)
	}
	return u, nil
}

// RawManifest implements v1.Image.
func (u uncompressed) RawManifest() ([]byte, error) { return u.manifest, nil }

// Digest implements v1.Image.
func (u uncompressed) Digest() (v1.Hash, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(u.manifest))
	return digest, err
}

// LayerByDigest implements v1.Image.
func (u uncompressed) LayerByDigest(digest v1.Hash) (v1.Layer, error) {
	l, ok := u.layers[digest]
	if !ok {
		return nil, damaged("the image has no layer %s", digest)
	}
	return l, nil
}

type plainLayer struct{ v1.Layer }

// Compressed implements v1.Layer: it isn't.
func (l plainLayer) Compressed() (io.ReadCloser, error) { return l.Uncompressed() }
