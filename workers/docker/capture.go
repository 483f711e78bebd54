package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/layer"
)

// capturer takes the images of sessions.
type capturer struct {
	engine     *engine
	notes      *notes
	states     *states
	pauser     *pauser
	describe   *describer
	remover    *remover
	dial       func(context.Context, schemas.UID) (net.Conn, error) // the session's connection, for its output
	log        *slog.Logger
	failpoints *failpoint.Set
}

// capture implements driver.Driver. It stores what it can before it pauses the container.
func (cp *capturer) capture(ctx context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	n, err := cp.notes.pass(f)
	if err != nil {
		return driver.Captured{}, err
	}
	c, err := cp.states.find(ctx, n)
	if err == nil {
		err = cp.remover.dropReplaced(ctx, &n)
	}
	if err != nil {
		return driver.Captured{}, err
	}
	fp, err := cp.engine.fingerprint(ctx)
	if err != nil {
		return driver.Captured{}, err
	}
	m, err := cp.describe.container(ctx, n, c)
	if err != nil {
		return driver.Captured{}, err
	}
	if blockers := blocks(m, c); len(blockers) > 0 {
		return driver.Captured{}, &driver.Error{Kind: driver.Refused, Text: "the container can't be captured", Blockers: blockers}
	}
	fp.Arch = archOf(m, fp.Arch)
	if err := cp.addBase(ctx, sink, m); err != nil {
		return driver.Captured{}, err
	}
	if err := cp.addOutput(ctx, sink, n); err != nil {
		return driver.Captured{}, err
	}
	if n.Phase != frozen {
		if err := cp.ahead(ctx, sink, m, c); err != nil {
			return driver.Captured{}, err
		}
	}
	if err := cp.failpoints.At(ctx, failpoint.DockerAhead); err != nil {
		return driver.Captured{}, err
	}
	out, err := cp.take(ctx, &n, m, c, sink)
	out.Fingerprint = fp
	return out, err
}

// archOf gives the architecture of a container's programs, which a snapshot of it needs.
func archOf(m *description, host string) string {
	if m.Image.Arch == "" {
		return host
	}
	return m.Image.Arch
}

// take pauses the container and adds all of it to the sink. After an error the container runs
// on.
func (cp *capturer) take(ctx context.Context, n *note, m *description, c *container.InspectResponse, sink driver.Sink) (driver.Captured, error) {
	laps := driver.LapsOf(ctx)
	laps.Mark("check")
	asked := time.Now()
	if err := cp.pauser.pause(ctx, n, c); err != nil {
		return driver.Captured{}, err
	}
	laps.Mark("freeze")
	began := time.Now()
	var warnings []schemas.Warning
	err := cp.failpoints.At(ctx, failpoint.DockerPaused)
	if err == nil {
		warnings, err = cp.add(ctx, m, c, sink)
	}
	if err == nil {
		err = cp.undisturbed(ctx, n, c)
	}
	if err == nil {
		err = cp.failpoints.At(ctx, failpoint.DockerAdded)
	}
	if err != nil {
		ctx, done := undoing(ctx)
		defer done()
		return driver.Captured{}, errors.Join(err, cp.pauser.unpause(ctx, *n))
	}
	return driver.Captured{
		Frozen: began, FreezeTook: began.Sub(asked), CaptureTook: time.Since(began), Warnings: slices.Concat(warnings, warningsOf(m), shownUnhealthy(c)),
	}, nil
}

// undisturbed makes sure that the container was paused for as long as it was read. If it was
// removed meanwhile, files are missing without an error.
func (cp *capturer) undisturbed(ctx context.Context, n *note, c *container.InspectResponse) error {
	got, err := cp.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if missing(err) {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("capture session %s: its container was removed by someone else meanwhile", n.Name), Err: driver.ErrNotHere}
	}
	if err != nil {
		return cp.engine.failed("inspect the container of session "+n.Name.String(), err)
	}
	if n.stillNotRunning(got.Container.State) {
		return nil
	}
	if s := got.Container.State; !s.Paused || s.StartedAt != c.State.StartedAt {
		if !s.Running {
			return &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("capture session %s: its container ended meanwhile", n.Name)}
		}
		return &driver.Error{Kind: driver.Transient, Text: fmt.Sprintf("capture session %s: its container was unpaused by someone else meanwhile", n.Name), Hint: "leave it paused, or try again"}
	}
	return nil
}

// add adds the paused container to the sink.
func (cp *capturer) add(ctx context.Context, m *description, c *container.InspectResponse, sink driver.Sink) (warnings []schemas.Warning, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stamps, err := layer.NewStamps(time.Now())
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the description of container %s: %w", m.Name, err)
	}
	if err := sink.Add(entryFile(metaEntry), bytes.NewReader(data)); err != nil {
		return nil, err
	}
	if m.Files == partUpper {
		warnings, err = addDir(ctx, sink, m.upper, partUpper, stamps)
	} else {
		err = cp.addExport(ctx, sink, c.ID, m)
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

// ahead stores the contents of files while the container runs, so that only what changes
// meanwhile is stored during the pause.
func (cp *capturer) ahead(ctx context.Context, sink driver.Sink, m *description, c *container.InspectResponse) error {
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

// addBase adds the image that the container was made from, unless a registry has it.
func (cp *capturer) addBase(ctx context.Context, sink driver.Sink, m *description) error {
	if !m.Image.Stored {
		return nil
	}
	open := func() (io.ReadCloser, error) {
		r, err := cp.engine.ImageSave(ctx, []string{m.Image.ID})
		if err != nil {
			return nil, cp.engine.failed("save image "+m.Image.Name, err)
		}
		return r, nil
	}
	e := entryFile(baseEntry)
	if s, ok := sink.(layer.Stamped); ok {
		return s.AddStamped(e, baseStamp(m.Image.ID), open)
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	return sink.Add(e, r)
}

// addOutput adds the container's output, as far as the engine keeps it, so that it can be read
// while the session is suspended.
func (cp *capturer) addOutput(ctx context.Context, sink driver.Sink, n note) error {
	conn, err := cp.dial(ctx, n.UID)
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
		cp.log.Info("leave the output out of the snapshot", "session", n.Name.String(), "err", err) // some logging drivers keep none
		return nil
	}
	e := entryFile(attach.OutputEntry)
	e.Size = int64(len(out))
	return sink.Add(e, bytes.NewReader(out))
}

// preflight implements driver.Preflighter.
func (cp *capturer) preflight(ctx context.Context, uid schemas.UID) ([]driver.Blocker, error) {
	n, err := cp.notes.read(uid)
	if err != nil {
		return nil, err
	}
	c, err := cp.states.find(ctx, n)
	if err != nil {
		return nil, err
	}
	m, err := cp.describe.container(ctx, n, c)
	if err != nil {
		return nil, err
	}
	return blocks(m, c), nil
}

// blocks lists what keeps a container from being captured.
func blocks(m *description, c *container.InspectResponse) (out []driver.Blocker) {
	say := func(what, why, fix string) {
		out = append(out, driver.Blocker{PID: c.State.Pid, Program: "container " + m.Name, What: what, Why: why, Fix: fix})
	}
	if c.State.Restarting {
		say("restarting", "the engine starts it again and again", "see `docker logs "+m.Name+"`")
	}
	for _, v := range m.Mounts {
		if v.Type == mount.TypeVolume && v.Driver != "local" {
			say("volume "+v.Name+" at "+v.At, "it is kept by the volume driver "+v.Driver+", elsewhere than on this host", "use a volume of the local driver")
		}
		if v.Part != "" {
			if st, err := os.Stat(v.path); err != nil || !st.IsDir() {
				say("what is mounted at "+v.At, v.path+" can't be read as a directory here", "run the worker where the engine is; don't capture the contents of single files")
			}
		}
	}
	return out
}

// warningsOf lists what the container has and the snapshot doesn't.
func warningsOf(m *description) (out []schemas.Warning) {
	warn := func(code schemas.WarningCode, subject, format string, args ...any) {
		out = append(out, schemas.Warning{Code: code, Subject: subject, Text: fmt.Sprintf(format, args...)})
	}
	for _, v := range m.Mounts {
		switch {
		case v.Type == mount.TypeTmpfs:
			warn(schemas.WarnTmpfs, v.At, "tmpfs %s is lost: it is memory", v.At)
		case v.Type == mount.TypeBind && v.Part == "":
			warn(schemas.WarnBindMount, v.At, "the contents of the bind mount %s (%s on this host) are not in the snapshot: another host must have them at the same place (or capture them with --bind)", v.At, v.Source)
		case v.Type == mount.TypeVolume && v.Part == "":
			warn(schemas.WarnVolume, v.Name, "the contents of volume %s at %s are not in the snapshot: they are of type %s, kept elsewhere", v.Name, v.At, kindOfVolume(v.Options))
		case len(v.Shared) > 0:
			warn(schemas.WarnVolumeShared, v.Name, "volume %s at %s is also used by %s, which wasn't paused: what it wrote meanwhile may be half in the snapshot", v.Name, v.At, strings.Join(v.Shared, ", "))
		}
	}
	for at := range m.HostConfig.Tmpfs {
		warn(schemas.WarnTmpfs, at, "tmpfs %s is lost: it is memory", at)
	}
	if m.Files == partRoot {
		warn(schemas.WarnAllFiles, "", "the engine doesn't keep layers in directories of this host (overlay2 does, and the containerd image store whose containerd can be asked): all of the file system is in the snapshot")
	}
	return out
}
