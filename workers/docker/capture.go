package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/lease/term"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
)

// Capture implements driver.Driver. What can be stored while the container runs is
// stored before it is paused.
func (d *Driver) Capture(ctx context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	n, err := d.notes.pass(f)
	if err != nil {
		return driver.Captured{}, err
	}
	c, err := d.find(ctx, n)
	if err == nil {
		err = d.settle(ctx, &n)
	}
	if err != nil {
		return driver.Captured{}, err
	}
	fp, err := d.Fingerprint(ctx)
	if err != nil {
		return driver.Captured{}, err
	}
	m, err := d.describeContainer(ctx, n, c)
	if err != nil {
		return driver.Captured{}, err
	}
	if blockers := blocks(m, c); len(blockers) > 0 {
		return driver.Captured{}, &driver.Error{Kind: driver.Refused, Text: "the container can't be captured", Blockers: blockers}
	}
	fp.Arch = archOf(m, fp.Arch)
	if err := d.addBase(ctx, sink, m); err != nil {
		return driver.Captured{}, err
	}
	if err := d.addOutput(ctx, sink, n); err != nil {
		return driver.Captured{}, err
	}
	if n.Phase != frozen {
		if err := d.ahead(ctx, sink, m, c); err != nil {
			return driver.Captured{}, err
		}
	}
	if err := d.options.Failpoints.At(ctx, failpoint.DockerAhead); err != nil {
		return driver.Captured{}, err
	}
	out, err := d.take(ctx, &n, m, c, sink)
	out.Fingerprint = fp
	return out, err
}

// archOf gives the architecture that a snapshot needs: that of the container's programs.
func archOf(m *capture, host string) string {
	if m.Image.Arch == "" {
		return host
	}
	return m.Image.Arch
}

// take pauses the container and adds all of it to the sink. It runs on after an error.
func (d *Driver) take(ctx context.Context, n *note, m *capture, c *container.InspectResponse, sink driver.Sink) (driver.Captured, error) {
	asked := time.Now()
	if err := d.pause(ctx, n, c); err != nil {
		return driver.Captured{}, err
	}
	began := time.Now()
	var warnings []string
	err := d.options.Failpoints.At(ctx, failpoint.DockerPaused)
	if err == nil {
		warnings, err = d.add(ctx, m, c, sink)
	}
	if err == nil {
		err = d.undisturbed(ctx, n, c)
	}
	if err == nil {
		err = d.options.Failpoints.At(ctx, failpoint.DockerAdded)
	}
	if err != nil {
		ctx, done := undoing(ctx)
		defer done()
		return driver.Captured{}, errors.Join(err, d.unpause(ctx, *n))
	}
	return driver.Captured{
		Frozen: began, FreezeTook: began.Sub(asked), CaptureTook: time.Since(began), Warnings: append(warnings, warningsOf(m)...),
	}, nil
}

// undisturbed makes sure that the container stood still for as long as it was read: of one
// that was removed meanwhile, files are simply missing.
func (d *Driver) undisturbed(ctx context.Context, n *note, c *container.InspectResponse) error {
	got, err := d.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the container of session %s was removed by somebody else while it was captured: the snapshot that was being made is not kept", n.Name), Err: driver.ErrNotHere}
	}
	if err != nil {
		return d.asked("look at the container of session "+n.Name.String(), err)
	}
	if n.isStill(got.Container.State) {
		return nil
	}
	if s := got.Container.State; !s.Paused || s.StartedAt != c.State.StartedAt {
		what := "was let go on by somebody else while it was captured: leave it paused, or try again"
		if !s.Running {
			what = "ended while it was captured"
		}
		return &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("the container of session %s %s", n.Name, what)}
	}
	return nil
}

// pause freezes the container, and notes before that it is we who do.
func (d *Driver) pause(ctx context.Context, n *note, c *container.InspectResponse) error {
	if n.Phase == frozen && c.State.Paused {
		return nil
	}
	gate := d.gates.gate(n.UID)
	if err := pass(ctx, gate.TryLock); err != nil { // what is being copied into it comes first
		return err
	}
	defer gate.Unlock()
	n.Phase, n.Paused = frozen, c.State.Paused
	if !n.isStill(c.State) { // somebody has started it
		n.Still = nil
	}
	if err := d.notes.write(*n); err != nil {
		return err
	}
	if n.Paused || n.isStill(c.State) {
		return nil
	}
	if err := d.betweenProbes(ctx, n.Container); err != nil {
		undo, done := undoing(ctx)
		defer done()
		return errors.Join(err, d.unpause(undo, *n))
	}
	if err := d.freeze(ctx, n.Container); err != nil {
		undo, done := undoing(ctx)
		defer done()
		return errors.Join(d.asked("pause the container of session "+n.Name.String(), err), d.unpause(undo, *n))
	}
	return nil
}

// freezes is how often a container is tried to be paused: processes that begin others all
// the time can be too quick for the engine, which then leaves them running.
const freezes = 10

func (d *Driver) freeze(ctx context.Context, id string) error {
	for i := 1; ; i++ {
		_, err := d.engine.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		if err == nil || i == freezes || !strings.Contains(err.Error(), "unable to freeze") {
			return err
		}
		select {
		case <-time.After(time.Duration(i) * 20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unpause lets the container run on, unless somebody else had paused it.
func (d *Driver) unpause(ctx context.Context, n note) error {
	if !n.Paused {
		got, err := d.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
		if err == nil && got.Container.State.Paused {
			_, err = d.engine.ContainerUnpause(ctx, n.Container, client.ContainerUnpauseOptions{})
		}
		if err != nil && !missing(err) {
			return d.asked("let the container of session "+n.Name.String()+" go on", err)
		}
	}
	n.Phase, n.Paused = here, false
	return d.notes.write(n)
}

// Thaw implements driver.Driver.
func (d *Driver) Thaw(ctx context.Context, f driver.Fence) error {
	n, err := d.notes.pass(f)
	if err != nil {
		return err
	}
	if _, err := d.find(ctx, n); err != nil {
		return err
	}
	if n.Phase != frozen {
		return nil
	}
	if err := leased(f); err != nil {
		return err
	}
	return d.unpause(ctx, n)
}

// leased refuses to let a session run when its host may have lost it to another.
func leased(f driver.Fence) error {
	if f.Lease == nil {
		return nil
	}
	if over := term.Now().Sub(f.Lease().Until); over >= 0 {
		return fmt.Errorf("session %s: %w: it was to be renewed %v ago", f.Name, driver.ErrNoLease, over.Round(time.Millisecond))
	}
	return nil
}

// add adds the paused container to the sink.
func (d *Driver) add(ctx context.Context, m *capture, c *container.InspectResponse, sink driver.Sink) (warnings []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stamps, err := layer.NewStamps(time.Now())
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode how container %s is made: %w", m.Name, err)
	}
	if err := sink.Add(entryFile(metaEntry), bytes.NewReader(data)); err != nil {
		return nil, err
	}
	if m.Files == partUpper {
		warnings, err = addDir(ctx, sink, m.upper, partUpper, stamps)
	} else {
		err = d.addWhole(ctx, sink, c.ID, m)
	}
	if err != nil {
		return nil, fmt.Errorf("add the files of container %s to the image: %w", m.Name, err)
	}
	for _, v := range m.Mounts {
		if v.Part == "" {
			continue
		}
		w, err := addDir(ctx, sink, v.path, v.Part, stamps)
		if err != nil {
			return nil, fmt.Errorf("add what is mounted at %s of container %s to the image: %w", v.At, m.Name, err)
		}
		warnings = append(warnings, w...)
	}
	return warnings, nil
}

// StoresEarly implements driver.Early.
func (d *Driver) StoresEarly() bool { return true }

// ahead stores the contents of files while the container runs, so that the pause is as
// short as what changes meanwhile allows.
func (d *Driver) ahead(ctx context.Context, sink driver.Sink, m *capture, c *container.InspectResponse) error {
	to, ok := sink.(layer.Storer)
	if !ok {
		return nil
	}
	stamps, err := layer.NewStamps(time.Now())
	if err != nil {
		return err
	}
	var dirs []string
	if m.Files == partUpper {
		dirs = append(dirs, m.upper)
	}
	for _, v := range m.Mounts {
		if v.Part != "" {
			dirs = append(dirs, v.path)
		}
	}
	for _, dir := range dirs {
		if err := aheadDir(ctx, to, dir, stamps); err != nil {
			return fmt.Errorf("store files of container %s ahead: %w", m.Name, err)
		}
	}
	return nil
}

// addBase adds the image below the container, where it can't be had again elsewhere.
func (d *Driver) addBase(ctx context.Context, sink driver.Sink, m *capture) error {
	if !m.Image.Stored {
		return nil
	}
	open := func() (io.ReadCloser, error) {
		r, err := d.engine.ImageSave(ctx, []string{m.Image.ID})
		if err != nil {
			return nil, d.asked("save image "+m.Image.Name, err)
		}
		return r, nil
	}
	e := entryFile(baseEntry)
	if s, ok := sink.(layer.Stamped); ok {
		return s.AddStamped(e, "image."+m.Image.ID, open) // its id is the digest of all of it
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	return sink.Add(e, r)
}

// addOutput adds what the container has printed, as far as the engine keeps it, so that it
// can be read while the session sleeps.
func (d *Driver) addOutput(ctx context.Context, sink driver.Sink, n note) error {
	conn, err := d.Dial(ctx, n.UID)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	out, err := attach.FetchOutput(conn)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		d.options.Log.Info("the output isn't in the snapshot", "session", n.Name.String(), "err", err) // some engines keep none
		return nil
	}
	e := entryFile(attach.OutputEntry)
	e.Size = int64(len(out))
	return sink.Add(e, bytes.NewReader(out))
}

// Preflight implements driver.Preflighter.
func (d *Driver) Preflight(ctx context.Context, uid schemas.UID) ([]driver.Blocker, error) {
	n, err := d.notes.read(uid)
	if err != nil {
		return nil, err
	}
	c, err := d.find(ctx, n)
	if err != nil {
		return nil, err
	}
	m, err := d.describeContainer(ctx, n, c)
	if err != nil {
		return nil, err
	}
	return blocks(m, c), nil
}
