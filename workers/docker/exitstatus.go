package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// restoreExitStatus gives a new container the exit status that the captured one had. It runs a
// program of a few bytes in the place of the container's command, before the container's files
// are filled in. If that isn't possible, the container stays as created.
func (r *restoring) restoreExitStatus(ctx context.Context, n *note) error {
	if r.meta.NotRunning == nil || r.meta.NotRunning.State != string(container.StateExited) {
		return nil
	}
	got, err := r.engine.ContainerInspect(ctx, n.Container, client.ContainerInspectOptions{})
	if err != nil {
		return r.engine.failed("look at the container that it made", err)
	}
	// Otherwise the engine would restart it, and run its own command once its files are there.
	policy := got.Container.HostConfig.RestartPolicy
	set := func(p restart) error {
		if policy.IsNone() {
			return nil
		}
		return r.engine.setRestart(ctx, n.Container, p)
	}
	if err := set(restart{Name: "no"}); err != nil {
		return err
	}
	why := r.fakeExit(ctx, &got.Container)
	if err := set(restart{string(policy.Name), policy.MaximumRetryCount}); err != nil {
		return err
	}
	if why == nil {
		return nil
	}
	r.log.Warn("restore the exit status of a container: it comes back as created", "session", r.f.Name.String(), "status", r.meta.NotRunning.Code, "err", why)
	return nil
}

// fakeExit puts the small program where the engine looks for the container's command first, and
// runs it.
func (r *restoring) fakeExit(ctx context.Context, c *container.InspectResponse) error {
	upper, err := r.storage.upper(ctx, c)
	code := exiting(runtime.GOARCH, r.meta.NotRunning.Code)
	switch {
	case err != nil:
		return err
	case upper == "" || r.meta.Files != partUpper:
		return errors.New("its layer is no directory of this host")
	case code == nil:
		return fmt.Errorf("no program is known for %s", runtime.GOARCH)
	case c.HostConfig.AutoRemove:
		return errors.New("the engine removes it when it ends")
	}
	at := c.Path
	if path.Base(at) == at {
		at = path.Join(searchPath(c.Config.Env)[0], at)
	} else if !path.IsAbs(at) {
		at = path.Join("/", c.Config.WorkingDir, at)
	}
	for _, m := range c.Mounts {
		if inside(at, m.Destination) {
			return fmt.Errorf("its command is in what is mounted at %s", m.Destination)
		}
	}
	to := filepath.Join(upper, path.Clean("/"+at))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(to, code, 0o755); err != nil {
		return err
	}
	if _, err := r.engine.ContainerStart(ctx, c.ID, client.ContainerStartOptions{}); err != nil {
		return err
	}
	return r.engine.awaitStopped(ctx, c.ID)
}

// exiting gives an ELF program that only exits with a status. It is nil for architectures whose
// code isn't known here.
func exiting(arch string, status int) []byte {
	const base, headers = 0x400000, 64 + 56
	var machine uint16
	var code []byte
	switch arch {
	case "amd64":
		machine = 62
		code = append([]byte{0xbf}, binary.LittleEndian.AppendUint32(nil, uint32(status))...) // mov edi, status
		code = append(code, 0xb8, 60, 0, 0, 0, 0x0f, 0x05)                                    // mov eax, 60; syscall
	case "arm64":
		machine = 183
		for _, i := range []uint32{0xd2800000 | uint32(status&0xffff)<<5, 0xd2800ba8, 0xd4000001} { // mov x0, status; mov x8, 93; svc 0
			code = binary.LittleEndian.AppendUint32(code, i)
		}
	default:
		return nil
	}
	le := binary.LittleEndian
	b := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	b = le.AppendUint16(b, 2) // an executable
	b = le.AppendUint16(b, machine)
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, base+headers)              // its entry point
	b = le.AppendUint64(b, 64)                        // offset of the program header
	b = append(b, make([]byte, 12)...)                // no sections, no flags
	for _, v := range []uint16{64, 56, 1, 64, 0, 0} { // sizes and counts of headers
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint32(b, 1) // loaded
	b = le.AppendUint32(b, 5) // read and executed
	for _, v := range []uint64{0, base, base, uint64(headers + len(code)), uint64(headers + len(code)), 0x1000} {
		b = le.AppendUint64(b, v)
	}
	return append(b, code...)
}
