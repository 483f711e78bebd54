package criu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/control"
)

// The parts of an image, as the first element of its entries' names.
const (
	partCriu   = "criu"  // criu's images
	partMeta   = "meta"  // what the shim had of the session
	partUpper  = "upper" // the session's own files
	partLayer  = "layer" // these, as the file system that they are in
	partLower  = "lower" // files of the layers below that are in use
	lowerIndex = "meta/lower.json"
)

// Capture freezes the session and adds its image to sink.
func (d *Driver) Capture(ctx context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	return d.CaptureRehearsed(ctx, f, sink, schemas.RehearseNever)
}

// CaptureRehearsed is Capture with a rehearsal of its restore.
func (d *Driver) CaptureRehearsed(ctx context.Context, f driver.Fence, sink driver.Sink, which schemas.Rehearse) (driver.Captured, error) {
	if err := d.pass(f); err != nil {
		return driver.Captured{}, err
	}
	fp, err := d.Fingerprint(ctx)
	if err != nil {
		return driver.Captured{}, err
	}
	if err := d.options.Failpoints.At(ctx, failpoint.CriuFenced); err != nil {
		return driver.Captured{}, err
	}
	c, err := d.shims.dial(ctx, "unixpacket", shim.ControlSocket(f.UID))
	if err != nil {
		return driver.Captured{}, err
	}
	conn := control.FromConn(c)
	// Closed before the shim said that it is done, it makes the shim thaw.
	defer conn.Close()
	if err := d.addRoot(ctx, sink, f.UID); err != nil {
		return driver.Captured{}, err
	}
	dump, err := d.capture(ctx, conn, f, sink, which)
	if err == nil {
		err = d.options.Failpoints.At(ctx, failpoint.CriuLetGo)
	}
	if err != nil {
		return driver.Captured{}, err
	}
	return driver.Captured{
		Frozen: dump.Frozen, FreezeTook: dump.FreezeTook, CaptureTook: dump.DumpTook,
		Fingerprint: fp, Warnings: dump.Warnings, Way: dump.Way, WhyWay: dump.WhyWay, Held: dump.Held,
		Rehearsed: dump.RehearsalTook > 0, RehearsalTook: dump.RehearsalTook,
	}, nil
}

// taken is what the shim hands over when all is dumped.
type taken struct {
	scratch, own, root *os.File // own is the private layer: a file, or a directory
}

func (t taken) close() {
	t.scratch.Close()
	t.own.Close()
	t.root.Close()
}

func (d *Driver) capture(ctx context.Context, conn *control.Conn, f driver.Fence, sink driver.Sink, which schemas.Rehearse) (*shim.Dump, error) {
	others, release, err := d.budget.forCapture(f.UID)
	if err != nil {
		return nil, err
	}
	defer release()
	ahead, err := d.budget.ahead()
	if err != nil {
		return nil, err
	}
	laps := driver.LapsOf(ctx)
	laps.Mark("prepare")
	order := shim.Order{Op: shim.OrderCapture, Epoch: f.Epoch, Way: d.options.Way, Room: d.options.Room, Promised: others, Failpoints: d.shims.shimPoints()}
	if which != schemas.RehearseNever {
		order.Rehearse = which
	}
	if err := conn.Send(order); err != nil {
		return nil, err
	}
	dump, from, err := awaitDump(ctx, conn, sink, ahead)
	if err != nil {
		return nil, err
	}
	defer from.close()
	if len(dump.Parts) > 0 { // a shim of an earlier version doesn't tell
		laps.Divide(dump.Parts, "wait")
	}
	laps.Mark("capture")
	var warnings []schemas.Warning
	if dump.Rehearses {
		r := listenRehearsal(ctx, conn)
		warnings, err = d.addRest(r.ctx, sink, dump, from)
		dump, err = r.finish(dump, err)
	} else {
		warnings, err = d.addRest(ctx, sink, dump, from)
		err = errors.Join(err, finish(conn, err == nil))
	}
	laps.Mark("detach")
	if err != nil {
		return nil, err
	}
	dump.Warnings = append(dump.Warnings, warnings...)
	return dump, nil
}

// addRest adds all of the image that criu hasn't streamed. criu waits meanwhile: some of it
// is gone after it. It warns of what is wrong with what it adds.
func (d *Driver) addRest(ctx context.Context, sink driver.Sink, dump *shim.Dump, from taken) (warnings []schemas.Warning, err error) {
	laps := driver.LapsOf(ctx)
	err = d.options.Failpoints.At(ctx, failpoint.CriuDumped)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		warnings, err = addOwn(ctx, sink, from.own, dump.Layer)
		laps.Mark("files")
	}
	if err == nil {
		err = d.digests.addLower(ctx, sink, dump.Lower, dump.Base)
		laps.Mark("lower")
	}
	if err == nil {
		err = d.options.Failpoints.At(ctx, failpoint.CriuLayers)
	}
	if err == nil {
		err = addMemory(ctx, sink, from.scratch)
		laps.Mark("pages")
	}
	if err == nil {
		err = d.options.Failpoints.At(ctx, failpoint.CriuMemory)
	}
	return warnings, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// finishWait bounds the wait for criu to detach from the session.
const finishWait = 2 * time.Minute

// finish lets criu end, and waits until the shim says that the session stands
// frozen, or that it runs again if the capture is given up.
func finish(conn *control.Conn, ok bool) error {
	if err := conn.Send(shim.Answer{Go: ok}); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(finishWait)); err != nil {
		return err
	}
	_, err := expect(conn, shim.PhaseDone)
	if !ok && driver.KindOf(err) != driver.Broken {
		return nil // its words repeat what the caller knows
	}
	return err
}

// giveUp ends a capture whose images are still being streamed, and waits until
// the session runs again: criu fails at the next pipe that has no reader, or is told
// at its end.
func giveUp(conn *control.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(finishWait)); err != nil {
		return err
	}
	for {
		var m shim.Message
		files, err := conn.Receive(&m)
		closeAll(files)
		switch {
		case err != nil:
			return fmt.Errorf("the session's shim ended: %w", err)
		case m.Failure != nil && m.Failure.Kind == driver.Broken:
			return m.Failure.Err()
		case m.Failure != nil:
			return nil // its words follow from what the caller knows
		case m.Phase == shim.PhaseDumped:
			return finish(conn, false)
		}
	}
}

// addOwn adds the session's private layer.
func addOwn(ctx context.Context, sink driver.Sink, own *os.File, kind string) ([]schemas.Warning, error) {
	switch kind {
	case "":
		return nil, addFiles(ctx, sink, own)
	case shim.LayerFile:
		return addFileSystem(sink, own)
	}
	return nil, fmt.Errorf("add the session's layer: its kind is %q", kind)
}

// addFiles adds the session's own files: its overlay's upper layer, whiteouts and the
// overlay's own attributes included. criu binds sockets that are in use again.
func addFiles(ctx context.Context, sink driver.Sink, upper *os.File) error {
	if err := layer.AddStill(ctx, sink, upper, partUpper); err != nil {
		return fmt.Errorf("add the session's files to the image: %w", err)
	}
	return nil
}

// addMemory adds criu's images and the shim's part, which are in memory.
func addMemory(ctx context.Context, sink driver.Sink, scratch *os.File) error {
	for _, part := range []string{partCriu, partMeta} {
		dir, err := layer.Beneath(scratch, part, os.O_RDONLY)
		if err != nil {
			return fmt.Errorf("read what was captured: %w", err)
		}
		err = layer.AddStill(ctx, sink, dir, part)
		dir.Close()
		if err != nil {
			return fmt.Errorf("add what was captured to the image: %w", err)
		}
	}
	return nil
}

func addBytes(sink driver.Sink, name string, b []byte) error {
	e := image.Entry{Name: name, Type: image.TypeFile, Mode: 0o600, Size: int64(len(b))}
	return sink.Add(e, bytes.NewReader(b))
}
