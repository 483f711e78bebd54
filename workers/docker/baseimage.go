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
)

// baseImages brings the image below a container to the engine.
type baseImages struct {
	engine *engine
	notes  *notes
	meta   *description
	source driver.Source
}

// ensure makes sure that the image below the container is on the engine, the very same one,
// and gives what it is called here.
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

// find gives what an image is called on this engine, "" if it isn't there. An engine that
// keeps images in another way has it under another id.
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
	for _, o := range all { // loaded for another session, under its own name
		if o.Image != b.Name {
			continue
		}
		if same, err := bi.is(ctx, b.Name, b); err != nil || same {
			return b.Name, err
		}
	}
	return "", nil
}

// is reports whether an image of this engine is the one that was below the container.
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
		return true, nil // containerd has another image's layer, and not what it would be made of
	}
	return got.ID == b.ID || len(layers) > 0 && slices.Equal(layers, b.Layers), nil
}

// madeName is what an image is called that was loaded from a snapshot, if its name is taken.
func madeName(b baseImage) string {
	id := strings.TrimPrefix(b.ID, "sha256:")
	return imagePrefix + id[:min(12, len(id))]
}

// called gives the name that an image had, if it is still its own, or else its id.
func (bi *baseImages) called(ctx context.Context, b baseImage) string {
	if got, err := bi.engine.ImageInspect(ctx, b.Name); err == nil && got.ID == b.ID {
		return b.Name
	}
	return b.ID
}

// share notes that an image goes with this session, too, if it was loaded for another:
// the last of them removes it.
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
		last = errors.Join(err, fmt.Errorf("what came is another image than %s", b.ID))
	}
	return "", &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("image %s (%s) below the container is not on the engine of this host, and can't be pulled: pull or load it", b.Name, b.ID), Err: last}
}

// load gives the engine the image that the snapshot holds.
func (bi *baseImages) load(ctx context.Context, n *note, b baseImage) (string, error) {
	ref := b.Name
	if _, err := bi.engine.ImageInspect(ctx, ref); err == nil || strings.HasPrefix(ref, "sha256:") || strings.Contains(ref, "@") || isHex(ref) {
		ref = madeName(b)
	}
	n.Image = ref // before there is one
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
	loaded, err := readProgress(got) // the engine is done when it has said all
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
	return "", &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the engine of this host doesn't make the same image of what the snapshot holds of %s", b.Name), Err: last}
}

// idIn finds the id of an image in what an engine tells of a load.
var idIn = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// readProgress reads what the engine tells of a longer task to its end: an error is in it, and the
// ids of images without a name.
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
		case errors.As(err, &other): // it tells it in words
			_, err = io.Copy(io.Discard, r)
			return ids, err
		case err != nil:
			return ids, fmt.Errorf("read what the engine tells: %w", err)
		case said.Error != "":
			return ids, errors.New(said.Error)
		}
		ids = append(ids, idIn.FindAllString(said.Stream, -1)...)
	}
}

func isHex(s string) bool { return len(s) >= 12 && strings.Trim(s, "0123456789abcdef") == "" }
