package rootfs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Blob is one that an image of a session keeps.
type Blob struct {
	Digest v1.Hash
	Size   int64
	File   string
}

// Blobs lists what the root was made of: the manifest first.
func (r Root) Blobs() ([]Blob, error) {
	manifest, err := readManifest(r.dir)
	if err != nil {
		return nil, err
	}
	digest, err := r.hash()
	if err != nil {
		return nil, err
	}
	all := []Blob{{Digest: digest, File: filepath.Join(r.dir, manifestFile)}}
	seen := map[v1.Hash]bool{}
	for _, d := range append([]v1.Descriptor{manifest.Config}, manifest.Layers...) {
		if !seen[d.Digest] {
			seen[d.Digest] = true
			all = append(all, Blob{Digest: d.Digest, File: blobFile(r.dir, d.Digest)})
		}
	}
	for i := range all {
		st, err := os.Stat(all[i].File)
		if err != nil {
			return nil, fmt.Errorf("read the blobs of the root: %w", err)
		}
		all[i].Size = st.Size()
	}
	return all, nil
}

// Index gives the index of an OCI layout that has the root's image.
func (r Root) Index() ([]byte, error) {
	manifest, err := readManifest(r.dir)
	if err != nil {
		return nil, err
	}
	digest, err := r.hash()
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(filepath.Join(r.dir, manifestFile))
	if err != nil {
		return nil, fmt.Errorf("read the root's manifest: %w", err)
	}
	d := v1.Descriptor{MediaType: manifest.MediaType, Digest: digest, Size: st.Size()}
	if d.MediaType == "" {
		d.MediaType = types.OCIManifestSchema1
	}
	b, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
	if err != nil {
		return nil, fmt.Errorf("encode the index of the root's image: %w", err)
	}
	return b, nil
}
