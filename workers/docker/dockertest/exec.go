package dockertest

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
)

// Exec runs a command in a container and gives what it printed, after an error as well; it
// is an error if it fails.
func (e *Engine) Exec(ctx context.Context, container string, command ...string) (string, error) {
	made, err := e.Client.ExecCreate(ctx, container, client.ExecCreateOptions{Cmd: command, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return "", err
	}
	got, err := e.Client.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return "", err
	}
	defer got.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, got.Reader); err != nil {
		return out.String(), fmt.Errorf("read what %q printed: %w", command, err)
	}
	end, err := e.Client.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
	if err != nil {
		return out.String(), err
	}
	if end.ExitCode != 0 {
		return out.String(), fmt.Errorf("%s: exit status %d: %s", strings.Join(command, " "), end.ExitCode, out.String())
	}
	return out.String(), nil
}
