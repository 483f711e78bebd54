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

// ping makes sure that the engine takes new connections: while it stops, it answers on
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

// pull has the engine fetch an image from its registry.
func (e *engine) pull(ctx context.Context, ref string) error {
	got, err := e.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	defer got.Close()
	return got.Wait(ctx)
}

// freezes is how often a container is tried to be paused: processes that begin others all
// the time can be too quick for the engine, which then leaves them running.
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

// fingerprint implements driver.Driver. It is an error if the engine is away or too old.
func (e *engine) fingerprint(ctx context.Context) (schemas.Fingerprint, error) {
	if err := e.reach(ctx); err != nil {
		return schemas.Fingerprint{}, err
	}
	v, err := e.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return schemas.Fingerprint{}, e.failed("ask for its version", err)
	}
	for _, c := range v.Components { // its networks, for one, have other names
		if strings.HasPrefix(c.Name, "Podman") {
			return schemas.Fingerprint{}, refuse("what answers at %s is Podman %s, which speaks Docker's API otherwise than Docker does: only containers of Docker's own engine can be sessions", e.address, c.Version)
		}
	}
	// Neither the kernel nor the engine has to be as new as the one that captured: what is
	// restored are files and a configuration.
	return schemas.Fingerprint{Arch: runtime.GOARCH, Driver: Name, Keeps: schemas.KeepsFiles, Engine: "docker-" + v.Version}, nil
}

// reach makes sure that the engine is there and is one that can be used.
func (e *engine) reach(ctx context.Context) error {
	p, err := e.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		return e.failed("reach it", err)
	}
	if p.OSType != "" && p.OSType != "linux" {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the Docker engine at %s runs %s containers; only those of Linux can be sessions", e.address, p.OSType)}
	}
	if olderAPI(p.APIVersion, minimumAPI) {
		return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the Docker engine at %s speaks API %s; %s (Docker 20.10) or later is needed: update it", e.address, p.APIVersion, minimumAPI)}
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
	major, _ = strconv.Atoi(a) // what is no number is old
	minor, _ = strconv.Atoi(b)
	return major, minor
}

// failed tells of an engine that didn't do what was asked of it, and whether trying again
// may help.
func (e *engine) failed(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	kind := driver.Refused
	var text string
	switch {
	case client.IsErrConnectionFailed(err):
		kind, text = driver.Transient, fmt.Sprintf("the Docker engine at %s doesn't answer (is it running?); couldn't %s", e.address, what)
	case strings.Contains(err.Error(), unix.ENOSPC.Error()):
		return e.noSpace(what, err)
	case cerrdefs.IsInternal(err), cerrdefs.IsUnavailable(err):
		kind = driver.Transient
		fallthrough
	default:
		text = "the Docker engine couldn't " + what
	}
	return &driver.Error{Kind: kind, Text: text, Err: err}
}

// writeFailed tells of files that couldn't be written where the engine keeps them.
func (e *engine) writeFailed(what string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return e.noSpace(what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (e *engine) noSpace(what string, err error) error {
	return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("the Docker engine at %s has no room left: make some and try again; couldn't %s", e.address, what), Err: err}
}

func missing(err error) bool { return cerrdefs.IsNotFound(err) }

// undoing gives the context for putting things back after ctx has ended.
func undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoTime)
}

// undoTime bounds what is done to put things back.
const undoTime = time.Minute

func (e *engine) setRestart(ctx context.Context, id string, r restart) error {
	p := container.RestartPolicy{Name: container.RestartPolicyMode(r.Name), MaximumRetryCount: r.Tries}
	if _, err := e.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{RestartPolicy: &p}); err != nil && !missing(err) {
		return e.failed("set when a container is started again", err)
	}
	return nil
}
