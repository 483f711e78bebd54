package docker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// engine is the connection to the Docker engine. Its errors say what the engine was asked
// for, and whether trying again may help.
type engine struct {
	*client.Client
	address string // unix:///path/of/its/socket
}

// ping makes sure that the engine takes new connections. While it stops, it still answers on
// those that it has.
func (e *engine) ping(ctx context.Context) error {
	fresh, err := client.New(client.WithHost(e.address))
	if err != nil {
		return err
	}
	defer fresh.Close()
	ctx, stop := context.WithTimeout(ctx, pingTime)
	defer stop()
	_, err = fresh.Ping(ctx, client.PingOptions{})
	return err
}

// pull makes the engine pull an image.
func (e *engine) pull(ctx context.Context, ref string) error {
	got, err := e.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	defer got.Close()
	return got.Wait(ctx)
}

// freezes is how often the engine is asked to pause a container. It gives up, with the container
// running, if processes keep starting others too quickly for it.
const freezes = 10

func (e *engine) pauseContainer(ctx context.Context, id string) error {
	for i := 1; ; i++ {
		_, err := e.ContainerPause(ctx, id, client.ContainerPauseOptions{})
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

// fingerprint implements driver.Driver. It fails if the engine doesn't answer or is too old.
func (e *engine) fingerprint(ctx context.Context) (schemas.Fingerprint, error) {
	if err := e.reach(ctx); err != nil {
		return schemas.Fingerprint{}, err
	}
	v, err := e.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return schemas.Fingerprint{}, e.failed("tell its version", err)
	}
	for _, c := range v.Components { // its networks have other names, for example
		if strings.HasPrefix(c.Name, "Podman") {
			return schemas.Fingerprint{}, hinted(refuse("the engine at %s is Podman %s, not Docker", e.address, c.Version), "only containers of Docker's own engine can be sessions")
		}
	}
	// Files and a configuration are restored, so neither the kernel nor the engine has to be as
	// new as on the host that captured them.
	return schemas.Fingerprint{Arch: runtime.GOARCH, Driver: Name, Keeps: schemas.KeepsFiles, Engine: "docker-" + v.Version}, nil
}

// reach makes sure that the engine answers and can be used.
func (e *engine) reach(ctx context.Context) error {
	p, err := e.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		return e.failed("answer a ping", err)
	}
	if p.OSType != "" && p.OSType != "linux" {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the Docker engine at %s runs %s containers", e.address, p.OSType), Hint: "only containers of Linux can be sessions"}
	}
	if olderAPI(p.APIVersion, minimumAPI) {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the Docker engine at %s speaks API %s, want %s or later", e.address, p.APIVersion, minimumAPI), Hint: "update it to Docker 20.10 or later"}
	}
	return nil
}

// olderAPI compares two versions of the API.
func olderAPI(a, b string) bool {
	major, minor := apiVersion(a)
	wantMajor, wantMinor := apiVersion(b)
	return major < wantMajor || major == wantMajor && minor < wantMinor
}

func apiVersion(s string) (major, minor int) {
	a, b, _ := strings.Cut(s, ".")
	major, _ = strconv.Atoi(a) // not a number counts as old
	minor, _ = strconv.Atoi(b)
	return major, minor
}

// failed gives the error of a request to the engine, which couldn't do what, with its kind.
func (e *engine) failed(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	kind := driver.Refused
	var text, hint string
	switch {
	case client.IsErrConnectionFailed(err):
		kind, text, hint = driver.Transient, fmt.Sprintf("the Docker engine at %s doesn't answer: couldn't %s", e.address, what), hintEngineAway
	case strings.Contains(err.Error(), unix.ENOSPC.Error()):
		return e.noSpace(what, err)
	case cerrdefs.IsInternal(err), cerrdefs.IsUnavailable(err):
		kind = driver.Transient
		fallthrough
	default:
		text = "the Docker engine couldn't " + what
	}
	return &driver.Error{Kind: kind, Text: text, Hint: hint, Err: err}
}

// writeFailed gives the error of a write to the engine's files.
func (e *engine) writeFailed(what string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return e.noSpace(what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (e *engine) noSpace(what string, err error) error {
	return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the Docker engine at %s has no room left: couldn't %s", e.address, what), Hint: "make room and try again", Err: err}
}

func missing(err error) bool { return cerrdefs.IsNotFound(err) }

// undoing gives a context for undoing what was done, also after ctx has ended.
func undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoTime)
}

// undoTime bounds how long undoing may take.
const undoTime = time.Minute

func (e *engine) setRestart(ctx context.Context, id string, r restart) error {
	p := container.RestartPolicy{Name: container.RestartPolicyMode(r.Name), MaximumRetryCount: r.Tries}
	if _, err := e.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{RestartPolicy: &p}); err != nil && !missing(err) {
		return e.failed("set a container's restart policy", err)
	}
	return nil
}
