package robustness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// remote is the driver of a worker that is a process of its own: the socket of the host
// where the sessions are, which outlive it. Each call is one connection, on which the host
// may ask back (begin, and what of an image is to be kept).
type remote string

// call is what a worker asks of its host.
type call struct {
	Method string
	UID    schemas.UID
	Name   schemas.Name
	Epoch  uint64
	Spec   schemas.Spec
	Boot   schemas.Boot
	Memory []byte // of Restore: what the image has
}

// answer is the last word of the host to a call, or a question in it, if Ask says so.
type answer struct {
	Ask   string // "begin", "add"
	Entry image.Entry
	Data  []byte

	Instances []driver.Instance
	Captured  driver.Captured
	Err       *failure
}

// failure is an error on its way.
type failure struct {
	Text   string
	Kind   driver.Kind
	Is     int  // which of known it is, from 1
	Theirs bool // it is what the worker answered to a question
}

var known = []error{driver.ErrStale, driver.ErrNotHere, driver.ErrNoLease}

// errTheirs is what a worker answers to a question with an error.
var errTheirs = errors.New("the worker says no")

func failed(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error(), Theirs: errors.Is(err, errTheirs)}
	for i, k := range known {
		if errors.Is(err, k) {
			f.Is = i + 1
		}
	}
	if e := new(driver.Error); errors.As(err, &e) {
		f.Kind = e.Kind
	}
	return f
}

// err gives the error back. theirs is what the worker has answered.
func (f *failure) err(theirs error) error {
	switch {
	case f == nil:
		return nil
	case f.Theirs:
		return theirs
	case f.Is > 0:
		return fmt.Errorf("%s: %w", f.Text, known[f.Is-1])
	case f.Kind != "":
		return &driver.Error{Kind: f.Kind, Text: f.Text}
	}
	return errors.New(f.Text)
}

// do makes a call. asked answers its questions. It doesn't heed ctx: the host answers at
// once but for what it asks.
func (r remote) do(c call, f driver.Fence, asked func(answer) error) (answer, error) {
	conn, err := net.Dial("unix", string(r))
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	if f.UID != "" {
		c.UID, c.Name, c.Epoch = f.UID, f.Name, f.Epoch
	}
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	if err := out.Encode(c); err != nil {
		return answer{}, err
	}
	var theirs error
	for {
		var a answer
		if err := in.Decode(&a); err != nil {
			return answer{}, fmt.Errorf("the host is gone: %w", err)
		}
		if a.Ask == "" {
			return a, a.Err.err(theirs)
		}
		theirs = asked(a)
		if err := out.Encode(theirs == nil); err != nil {
			return answer{}, err
		}
	}
}

func (r remote) Fingerprint(context.Context) (schemas.Fingerprint, error) {
	return schemas.Fingerprint{Arch: "fake", Kernel: "0", Driver: "fake", Keeps: schemas.KeepsMemory, Engine: "fake 1", Base: "host"}, nil
}

func (r remote) one(c call, f driver.Fence, asked func(answer) error) (driver.Instance, error) {
	a, err := r.do(c, f, asked)
	if len(a.Instances) == 0 {
		return driver.Instance{}, err
	}
	return a.Instances[0], err
}

func (r remote) Start(ctx context.Context, f driver.Fence, spec schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	return r.one(call{Method: "Start", Spec: spec}, f, func(answer) error { return begin(ctx) })
}

func (r remote) Restore(ctx context.Context, f driver.Fence, spec schemas.Spec, src driver.Source, boot schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	file, err := src.Open(memory)
	if err != nil {
		return driver.Instance{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		return driver.Instance{}, err
	}
	return r.one(call{Method: "Restore", Spec: spec, Boot: boot, Memory: data}, f, func(answer) error { return begin(ctx) })
}

func (r remote) Capture(_ context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	a, err := r.do(call{Method: "Capture"}, f, func(a answer) error { return sink.Add(a.Entry, strings.NewReader(string(a.Data))) })
	return a.Captured, err
}

func (r remote) Thaw(_ context.Context, f driver.Fence) error {
	_, err := r.do(call{Method: "Thaw"}, f, nil)
	return err
}

func (r remote) Stop(_ context.Context, f driver.Fence) error {
	_, err := r.do(call{Method: "Stop"}, f, nil)
	return err
}

func (r remote) Inspect(_ context.Context, uid schemas.UID) (driver.Instance, error) {
	return r.one(call{Method: "Inspect", UID: uid}, driver.Fence{}, nil)
}

func (r remote) Recover(context.Context) ([]driver.Instance, error) {
	a, err := r.do(call{Method: "Recover"}, driver.Fence{}, nil)
	return a.Instances, err
}

// memory is the file of an image that has what the fake remembers.
const memory = "criu/memory"

// drive lets a worker of another process have a host's sessions, and gives the socket.
func (f *machines) drive(own bool, h *host) string {
	if !own {
		return ""
	}
	path := filepath.Join(f.t.TempDir(), "driver")
	l, err := net.Listen("unix", path)
	f.must(err)
	f.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f.answer(conn, h)
		}
	}()
	return path
}

// answer carries one call out.
func (f *machines) answer(conn net.Conn, h *host) {
	defer conn.Close()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	var c call
	if in.Decode(&c) != nil {
		return
	}
	gone := false
	ask := func(a answer) error {
		var yes bool
		if err := errors.Join(out.Encode(a), in.Decode(&yes)); err != nil {
			gone = true
			return err
		}
		if !yes {
			return errTheirs
		}
		return nil
	}
	a, err := h.carryOut(f, c, ask)
	a.Err = failed(err)
	if c.Method == "Capture" && (out.Encode(a) != nil || gone) {
		h.fake.LetGo(c.UID) // as its shim does when the worker ends in the middle
		return
	}
	_ = out.Encode(a) // no one is there to hear it
}

// asks is a sink, or a source, at the other end.
type asks func(answer) error

func (a asks) Add(e image.Entry, content io.Reader) error {
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return a(answer{Ask: "add", Entry: e, Data: data})
}

type remembered []byte

func (r remembered) Entries() []image.Entry { return nil }

func (r remembered) Open(string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(r))), nil
}

func (h *host) carryOut(f *machines, c call, ask asks) (a answer, err error) {
	ctx, d := context.Background(), &guard{Driver: h.fake, f: f, host: h}
	fence := driver.Fence{UID: c.UID, Name: c.Name, Epoch: c.Epoch}
	begin := func(context.Context) error { return ask(answer{Ask: "begin"}) }
	var one driver.Instance
	switch c.Method {
	case "Start":
		one, err = d.Start(ctx, fence, c.Spec, begin)
	case "Restore":
		one, err = d.Restore(ctx, fence, c.Spec, remembered(c.Memory), c.Boot, begin)
	case "Inspect":
		one, err = d.Inspect(ctx, c.UID)
	case "Capture":
		a.Captured, err = d.Capture(ctx, fence, ask)
		return a, err
	case "Recover":
		a.Instances, err = d.Recover(ctx)
		return a, err
	case "Thaw":
		return a, d.Thaw(ctx, fence)
	case "Stop":
		return a, d.Stop(ctx, fence)
	default:
		return a, fmt.Errorf("no method %q", c.Method)
	}
	a.Instances = []driver.Instance{one}
	return a, err
}
