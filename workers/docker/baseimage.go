package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
)

// baseImages provides the image that a captured container was made from.
type baseImages struct {
	engine *engine
	notes  *notes
	meta   *description
	source driver.Source
}

// ensure makes sure that the engine has the same image, and gives its reference here.
func (bi *baseImages) ensure(ctx context.Context, n *note) (string, error) {
	if bi.meta.Files == partRoot {
		return bi.importRoot(ctx, n)
	}
	b := bi.meta.Image
	ref, err := bi.find(ctx, b)
	if err != nil {
		return "", err
	}
	if ref != "" {
		return ref, bi.share(ref, n)
	}
	if !b.Stored {
		return bi.pullOne(ctx, b)
	}
	return bi.load(ctx, n, b)
}

// find gives the reference of an image on this engine, "" if it isn't there. Another image store
// has the same image under another id.
func (bi *baseImages) find(ctx context.Context, b baseImage) (string, error) {
	for _, ref := range slices.Concat([]string{b.ID}, b.Digests, []string{madeName(b)}) {
		same, err := bi.is(ctx, ref, b)
		if err != nil || !same {
			if err == nil {
				continue
			}
			return "", err
		}
		if ref == b.ID {
			ref = bi.called(ctx, b)
		}
		return ref, nil
	}
	all, err := bi.notes.all()
	if err != nil {
		return "", err
	}
	for _, o := range all { // loaded for another session, under that session's name for it
		if o.Image != b.Name {
			continue
		}
		if same, err := bi.is(ctx, b.Name, b); err != nil || same {
			return b.Name, err
		}
	}
	return "", nil
}

// is reports whether an image of this engine is the one that the container was made from.
func (bi *baseImages) is(ctx context.Context, ref string, b baseImage) (bool, error) {
	got, err := bi.engine.ImageInspect(ctx, ref)
	if missing(err) {
		return false, nil
	}
	if err != nil {
		return false, bi.engine.failed("look for image "+b.Name, err)
	}
	layers := got.RootFS.Layers
	if len(layers) == 0 && slices.Contains(b.Digests, ref) {
		return true, nil // containerd knows the digest without having unpacked the layers
	}
	return got.ID == b.ID || len(layers) > 0 && slices.Equal(layers, b.Layers), nil
}

// baseStamp is the stamp of an image in a snapshot: its id is the digest of its content.
func baseStamp(id string) string { return "image." + id }

// known has the next snapshot know the image that this one holds, under the id that it has here.
func (bi *baseImages) known(id string) {
	if to, ok := bi.source.(layer.Restamped); ok && bi.meta.Image.Stored {
		to.Restamp(baseEntry, baseStamp(id))
	}
}

// madeName is the name of an image that is loaded from a snapshot, if its own name is taken.
func madeName(b baseImage) string {
	id := strings.TrimPrefix(b.ID, "sha256:")
	return imagePrefix + id[:min(12, len(id))]
}

// called gives the name of an image if that still refers to it, and otherwise its id.
func (bi *baseImages) called(ctx context.Context, b baseImage) string {
	if got, err := bi.engine.ImageInspect(ctx, b.Name); err == nil && got.ID == b.ID {
		return b.Name
	}
	return b.ID
}

// share notes an image that was loaded for another session: the last session that has noted it
// removes it.
func (bi *baseImages) share(ref string, n *note) error {
	all, err := bi.notes.all()
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.Image == ref {
			n.Image = ref
			return bi.notes.write(*n)
		}
	}
	return nil
}

func (bi *baseImages) pullOne(ctx context.Context, b baseImage) (string, error) {
	var last error
	for _, digest := range b.Digests {
		if last = bi.engine.pull(ctx, digest); last != nil {
			continue
		}
		same, err := bi.is(ctx, digest, b)
		if err == nil && same {
			return digest, nil
		}
		last = errors.Join(err, fmt.Errorf("pulled another image than %s", b.ID))
	}
	return "", &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("image %s (%s) is not on this engine, and can't be pulled", b.Name, b.ID), Hint: hintPull, Err: last}
}

// load loads the image that the snapshot holds into the engine.
func (bi *baseImages) load(ctx context.Context, n *note, b baseImage) (string, error) {
	ref := b.Name
	if _, err := bi.engine.ImageInspect(ctx, ref); err == nil || strings.HasPrefix(ref, "sha256:") || strings.Contains(ref, "@") || isHex(ref) {
		ref = madeName(b)
	}
	n.Image = ref // noted before it exists
	if err := bi.notes.write(*n); err != nil {
		return "", err
	}
	in, err := bi.source.Open(baseEntry)
	if err != nil {
		return "", err
	}
	defer in.Close()
	got, err := bi.engine.ImageLoad(ctx, in)
	if err != nil {
		return "", bi.engine.failed("load image "+b.Name, err)
	}
	loaded, err := readProgress(got) // the engine is done at the end of its answer
	got.Close()
	if err != nil {
		return "", bi.engine.failed("load image "+b.Name, err)
	}
	var last error
	for _, id := range append(loaded, b.ID) {
		same, err := bi.is(ctx, id, b)
		if err == nil && same {
			_, err = bi.engine.ImageTag(ctx, client.ImageTagOptions{Source: id, Target: ref})
		}
		if err == nil && same {
			return ref, nil
		}
		last = errors.Join(last, err)
	}
	return "", &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("load image %s: the engine made another of the snapshot's", b.Name), Err: last}
}

// idIn matches the id of an image in the engine's messages about a load.
var idIn = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// readProgress reads the engine's messages about a task to their end. It gives the ids of images
// without a name that they mention, and the error that they report.
func readProgress(r io.Reader) (ids []string, err error) {
	for d := json.NewDecoder(r); ; {
		var said struct {
			Error  string `json:"error"`
			Stream string `json:"stream"`
		}
		err := d.Decode(&said)
		var other *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			return ids, nil
		case errors.As(err, &other): // plain text
			_, err = io.Copy(io.Discard, r)
			return ids, err
		case err != nil:
			return ids, fmt.Errorf("read the engine's progress: %w", err)
		case said.Error != "":
			return ids, errors.New(said.Error)
		}
		ids = append(ids, idIn.FindAllString(said.Stream, -1)...)
	}
}

func isHex(s string) bool { return len(s) >= 12 && strings.Trim(s, "0123456789abcdef") == "" }
