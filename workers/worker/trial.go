package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// OpenImage opens a snapshot of a session as a resume would, to verify it.
func (w *Worker) OpenImage(ctx context.Context, r schemas.SessionRecord, head schemas.Head) (*image.Reader, error) {
	return w.snapshots.Open(ctx, r, head)
}

// errTrial ends a trial restore where a resume would begin to run.
var errTrial = errors.New("only tried")

// TryImage restores a snapshot in quarantine, under a uid that no record has, and
// kills it before its first instruction: it does all of a resume but the running. The session
// itself may run meanwhile.
func (w *Worker) TryImage(ctx context.Context, r schemas.SessionRecord, img *image.Reader) error {
	d, err := w.inventory.drivers.of(r)
	if err != nil {
		return err
	}
	spec, err := w.snapshots.Spec(r)
	if err != nil {
		return err
	}
	f := driver.Fence{UID: schemas.UID("trial-" + strings.ToLower(rand.Text()[:22])), Name: r.Name(), Epoch: 1}
	restored := false
	_, err = d.Restore(ctx, f, spec, img, schemas.BootTrial, func(context.Context) error {
		restored = true
		return errTrial
	})
	if stopErr := d.Stop(context.WithoutCancel(ctx), f); stopErr != nil {
		return fmt.Errorf("remove what the trial restore of session %s left: %w", r.Name(), stopErr)
	}
	if !restored {
		return fmt.Errorf("trial restore of session %s: %w", r.Name(), err)
	}
	return nil
}
