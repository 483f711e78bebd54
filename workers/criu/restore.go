package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/control"
)

// Restore brings a session back from source.
func (d *Driver) Restore(ctx context.Context, f driver.Fence, spec schemas.Spec, source driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	if err := d.pass(f); err != nil {
		return driver.Instance{}, err
	}
	if err := checkSpec(spec); err != nil {
		return driver.Instance{}, err
	}
	if boot == schemas.BootClean || boot == "" {
		return driver.Instance{}, fmt.Errorf("restore session %s: a boot of %q is no restore", f.Name, boot)
	}
	if err := d.shims.vacant(f); err != nil {
		return driver.Instance{}, err
	}
	if err := d.options.Failpoints.At(ctx, failpoint.CriuVacant); err != nil {
		return driver.Instance{}, err
	}
	below, err := d.lowerFor(ctx, f, spec, source, boot)
	if err != nil {
		return driver.Instance{}, err
	}
	asked := false
	once := func(ctx context.Context) error {
		asked = true
		return begin(ctx)
	}
	const attempts = 4
	for i := 1; ; i++ {
		state, way, err := d.restore(ctx, f, below, source, boot, once)
		if err == nil {
			d.watchers.add(f.UID)
			i := instanceOf(*state, false)
			i.Way = way
			return i, d.options.Failpoints.At(ctx, failpoint.CriuRuns)
		}
		if asked || i == attempts || !errors.Is(err, shim.ErrPassing) {
			return driver.Instance{}, d.shims.undone(ctx, f, err)
		}
		if removeErr := d.shims.discard(f); removeErr != nil {
			return driver.Instance{}, errors.Join(err, removeErr)
		}
	}
}

func (d *Driver) restore(ctx context.Context, f driver.Fence, below lower, source driver.Source, boot schemas.Boot, begin func(context.Context) error) (state *shim.State, way driver.Way, err error) {
	laps := driver.LapsOf(ctx)
	conn, err := d.shims.launch(f, below, boot, d.layerFor(below.spec, source))
	if err != nil {
		return nil, "", err
	}
	// Closed before it said that the session runs, it makes the shim undo all.
	defer conn.Close()
	if err := d.options.Failpoints.At(ctx, failpoint.CriuShim); err != nil {
		return nil, "", err
	}
	release := interruptible(ctx, conn)
	defer release()
	served, kept, err := d.budget.forRestore(f.UID, source)
	if kept != nil {
		defer kept()
	}
	if err == nil {
		laps.Mark("plan")
		err = d.fill(ctx, conn, lowerRoot{shim.Setup{Spec: below.spec}.Base(), below.hidden}, source, served)
		laps.Mark("fill")
	}
	if err == nil {
		err = d.options.Failpoints.At(ctx, failpoint.CriuFilled)
	}
	if err == nil {
		err = conn.Send(shim.Answer{Go: true, Served: served})
	}
	var warnings []schemas.Warning
	if err == nil {
		warnings, err = serve(ctx, conn, source, served)
		laps.Mark("criu")
	}
	if err != nil {
		return nil, "", orDone(ctx, err)
	}
	way = driver.WayMemory
	if len(served) > 0 {
		way = driver.WayStream
	}
	state, err = letGo(ctx, conn, f, release, func(ctx context.Context) error {
		if err := begin(driver.WithWarnings(ctx, warnings)); err != nil {
			return err
		}
		return d.options.Failpoints.At(ctx, failpoint.CriuGoing)
	})
	return state, way, err
}

// fill puts the image where the shim wants it: memory into memory, the session's
// private layer on disk, where it is when it runs.
func (d *Driver) fill(ctx context.Context, conn *control.Conn, below lowerRoot, source driver.Source, served []string) error {
	var m shim.Message
	files, err := conn.Receive(&m)
	driver.LapsOf(ctx).Mark("shim")
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	switch {
	case err != nil:
		return fmt.Errorf("the session's shim ended: %w", err)
	case m.Failure != nil:
		return m.Failure.Err()
	case m.Phase != shim.PhaseScratch || len(files) != 3:
		return fmt.Errorf("the session's shim said %q instead of %q", m.Phase, shim.PhaseScratch)
	}
	looks, err := os.Open(below.path)
	if err != nil {
		return fmt.Errorf("open the root below the session: %w", err)
	}
	defer looks.Close()
	memory := &layer.Extraction{Source: source, Root: files[0]}
	own := &layer.Extraction{Source: source, Root: files[2], As: partUpper}
	if err := extractAll(ctx, source, memory, own, served); err != nil {
		return err
	}
	middle := &layer.Extraction{Source: source, Root: files[1], As: partLower, Looks: looks}
	if err := d.digests.fillMiddle(ctx, source, below, middle); err != nil {
		return err
	}
	return layer.Fill(ctx, source, memory, own, middle)
}

// extractAll makes criu's images, but for those that are served, and the shim's part in
// memory, and the session's private layer: its files, or the file system that it is.
func extractAll(ctx context.Context, source driver.Source, memory, own *layer.Extraction, served []string) error {
	if err := fillFileSystem(source, own); err != nil {
		return err
	}
	for _, e := range source.Entries() {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		switch part(e.Name) {
		case partCriu, partMeta:
			if slices.Contains(served, strings.TrimPrefix(e.Name, partCriu+"/")) {
				continue
			}
			err = memory.Extract(e)
		case partUpper:
			err = own.Extract(e)
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", e.Name, err)
		}
	}
	return nil
}
