package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/workers/driver"
)

// base makes sure that the image below the container is on the engine, the very same one,
// and gives what it is called here.
func (r *restoring) base(ctx context.Context, n *note) (string, error) {
	if r.meta.Files == partRoot {
		return r.importWhole(ctx, n)
	}
	b := r.meta.Image
	if _, err := r.engine.ImageInspect(ctx, b.ID); err == nil {
		ref := r.called(ctx, b)
		return ref, r.alsoOurs(ref, n)
	} else if !missing(err) {
		return "", r.asked("look for image "+b.Name, err)
	}
	if !b.Stored {
		return r.pullBase(ctx, b)
	}
	return r.loadBase(ctx, n, b)
}

// called gives the name that an image had, if it is still its own, or else its id.
func (r *restoring) called(ctx context.Context, b baseImage) string {
	if got, err := r.engine.ImageInspect(ctx, b.Name); err == nil && got.ID == b.ID {
		return b.Name
	}
	return b.ID
}

// alsoOurs notes that an image goes with this session, too, if it was loaded for another:
// the last of them removes it.
func (r *restoring) alsoOurs(ref string, n *note) error {
	all, err := r.notes.all()
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.Image == ref {
			n.Image = ref
			return r.notes.write(*n)
		}
	}
	return nil
}

func (r *restoring) pullBase(ctx context.Context, b baseImage) (string, error) {
	var last error
	for _, digest := range b.Digests {
		if last = r.pull(ctx, digest); last != nil {
			continue
		}
		got, err := r.engine.ImageInspect(ctx, digest)
		if err == nil && got.ID == b.ID {
			return digest, nil
		}
		last = fmt.Errorf("what came is another image than %s", b.ID)
	}
	return "", &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("image %s (%s) below the container is not on the engine of this host, and can't be pulled: pull or load it", b.Name, b.ID), Err: last}
}

// pull has the engine fetch an image from its registry.
func (d *Driver) pull(ctx context.Context, ref string) error {
	got, err := d.engine.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	defer got.Close()
	return got.Wait(ctx)
}

// loadBase gives the engine the image that the snapshot holds.
func (r *restoring) loadBase(ctx context.Context, n *note, b baseImage) (string, error) {
	ref := b.Name
	if _, err := r.engine.ImageInspect(ctx, ref); err == nil || strings.HasPrefix(ref, "sha256:") || strings.Contains(ref, "@") || isHex(ref) {
		ref = imagePrefix + strings.TrimPrefix(b.ID, "sha256:")[:12]
	}
	n.Image = ref // before there is one
	if err := r.notes.write(*n); err != nil {
		return "", err
	}
	in, err := r.source.Open(baseEntry)
	if err != nil {
		return "", err
	}
	defer in.Close()
	got, err := r.engine.ImageLoad(ctx, in)
	if err != nil {
		return "", r.asked("load image "+b.Name, err)
	}
	err = saidAll(got) // the engine is done when it has said all
	got.Close()
	if err != nil {
		return "", r.asked("load image "+b.Name, err)
	}
	if _, err := r.engine.ImageTag(ctx, client.ImageTagOptions{Source: b.ID, Target: ref}); err != nil {
		return "", &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the engine of this host doesn't make the same image of what the snapshot holds of %s", b.Name), Err: err}
	}
	return ref, nil
}

// saidAll reads what the engine tells of a longer task to its end: an error is in it.
func saidAll(r io.Reader) error {
	for d := json.NewDecoder(r); ; {
		var said struct {
			Error string `json:"error"`
		}
		err := d.Decode(&said)
		var other *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &other): // it tells it in words
			_, err = io.Copy(io.Discard, r)
			return err
		case err != nil:
			return fmt.Errorf("read what the engine tells: %w", err)
		case said.Error != "":
			return errors.New(said.Error)
		}
	}
}

func isHex(s string) bool { return len(s) >= 12 && strings.Trim(s, "0123456789abcdef") == "" }
