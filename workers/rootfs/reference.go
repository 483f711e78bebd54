package rootfs

import (
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// The places where an image may be, as the beginning of a reference. Without one it is in a
// registry.
const (
	inTar    = "tar:"
	inLayout = "layout:"
	inEngine = "engine:"
)

// reference names an image.
type reference struct {
	text   string
	place  string         // inTar, inLayout, inEngine or "" for a registry
	at     string         // a path, or what the engine calls it
	remote name.Reference // of a registry
}

// parse reads what a person wrote.
func parse(text string) (reference, error) {
	r := reference{text: text}
	for _, place := range []string{inTar, inLayout, inEngine} {
		if at, ok := strings.CutPrefix(text, place); ok {
			r.place, r.at = place, at
		}
	}
	switch {
	case r.place == "":
		remote, err := name.ParseReference(text)
		if err != nil {
			return r, refuse(CodeReference, "write it as alpine:3, ghcr.io/owner/name@sha256:…, tar:/path, layout:/path or engine:NAME", "%q names no image: %v", text, err)
		}
		r.remote = remote
	case r.at == "":
		return r, refuse(CodeReference, "", "%q names no image", text)
	case r.place != inEngine && !filepath.IsAbs(r.at):
		return r, refuse(CodeReference, "", "%q names no image: the path must be absolute", text)
	}
	return r, nil
}

// Check refuses a reference that can't name an image.
func Check(ref string) error {
	_, err := parse(ref)
	return err
}
