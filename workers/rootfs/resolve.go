package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/diapause/diapause/workers/driver"
)

func machine() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// resolve finds an image, and its digest. The files that it is read from may be below scratch, a
// directory of the caller's.
func (s *Store) resolve(ctx context.Context, r reference, scratch string) (v1.Image, v1.Hash, error) {
	img, err := s.find(ctx, r, scratch)
	if err == nil {
		var digest v1.Hash
		if digest, err = img.Digest(); err == nil {
			return img, digest, nil
		}
	}
	return nil, v1.Hash{}, explain(r, err)
}

func (s *Store) find(ctx context.Context, r reference, scratch string) (v1.Image, error) {
	switch r.place {
	case inTar:
		return fromTar(r, r.at)
	case inLayout:
		index, err := layout.ImageIndexFromPath(r.at)
		if err != nil {
			return nil, err
		}
		return pick(r, index, 0)
	case inEngine:
		file, err := s.saveFromEngine(ctx, r.at, scratch)
		if err != nil {
			return nil, err
		}
		return fromTar(r, file)
	}
	d, err := remote.Get(r.remote, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return nil, err
	}
	if !d.MediaType.IsIndex() {
		return d.Image()
	}
	index, err := d.ImageIndex()
	if err != nil {
		return nil, err
	}
	return pick(r, index, 0)
}

// pick finds the image for this machine in an index.
func pick(r reference, index v1.ImageIndex, depth int) (v1.Image, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range m.Manifests {
		switch {
		case d.MediaType.IsIndex() && depth < 4:
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			if img, err := pick(r, inner, depth+1); driver.CodeOf(err) != CodeArchitecture {
				return img, err
			}
		case d.MediaType.IsImage() && (d.Platform == nil || d.Platform.Satisfies(machine())):
			return index.Image(d.Digest)
		}
	}
	return nil, wrongMachine(r.text)
}

func wrongMachine(what string) error {
	return refuse(CodeArchitecture, "", "there is no image in %s for this machine, which is %s", what, machine())
}

// explain says what to do about an image that can't be found.
func explain(r reference, err error) error {
	var known *driver.Error
	var answer *transport.Error
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return refuse(CodeNotFound, "it must be on the host that the session runs on", "there is no image at %s: %v", r.text, err)
	case errors.As(err, &answer):
		return refusal(r, answer)
	case r.remote != nil:
		return away(r.remote.Context().RegistryStr(), err)
	}
	return damaged("%s can't be read: %v", r.text, err)
}

// refusal is for what a registry answered.
func refusal(r reference, err *transport.Error) error {
	registry := "the registry"
	if r.remote != nil {
		registry = r.remote.Context().RegistryStr()
	}
	switch err.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return refuse(CodeDenied, "if it is private, `docker login` as the user that the worker runs as", "%s gives no access to %s, or has none", registry, r.text)
	case http.StatusNotFound:
		return refuse(CodeNotFound, "look at its name and tag", "%s has no image %s", registry, r.text)
	}
	return away(registry, err)
}

func away(registry string, err error) error {
	var op *net.OpError
	if errors.As(err, &op) { // it is tried in more than one way, and says the same of each
		err = op
	}
	return &driver.Error{
		Kind: driver.Transient, Code: CodeAway, Err: err, Text: fmt.Sprintf("the registry %s can't be asked for the image", registry),
		Hint: "look whether this host reaches it; an image in a file does without: tar:PATH",
	}
}

// pinned gives the digest that a reference of a registry names itself.
func (r reference) pinned() (v1.Hash, bool) {
	d, ok := r.remote.(name.Digest)
	if !ok {
		return v1.Hash{}, false
	}
	h, err := v1.NewHash(d.DigestStr())
	return h, err == nil
}
