package canary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/cgroup"
	"github.com/diapause/diapause/workers/criu"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/shim"
)

// TestMain lets the test binary be the shim and the canary, as the program that
// uses them is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "canary-program" {
		os.Exit(Program(os.Args[2:]))
	}
	os.Exit(m.Run())
}

var options = Options{Words: []string{"canary-program"}}

// host is a criu driver on directories of its own.
func host(t *testing.T) (d *criu.Driver, data string) {
	t.Helper()
	data = t.TempDir()
	instance := fmt.Sprintf("canary-%d", os.Getpid())
	d, err := criu.New(criu.Options{Data: data, Instance: instance})
	if err != nil {
		t.Fatalf("%v (this test runs a session: it needs root and criu, see workers/criu/install/install.sh)", err)
	}
	t.Cleanup(func() {
		h, err := cgroup.Open("diapause/" + instance)
		if err == nil {
			if names, _ := h.Names(); len(names) > 0 {
				t.Errorf("cgroups of the canary are left: %v", names)
			}
			err = h.Remove()
		}
		if err != nil {
			t.Error(err)
		}
	})
	return d, data
}

// wantNothing checks that no session is left in a driver's data directory.
func wantNothing(t *testing.T, data string) {
	t.Helper()
	for _, dir := range []string{"run", "sessions"} {
		left, err := os.ReadDir(filepath.Join(data, dir))
		if err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

func TestRun(t *testing.T) {
	d, data := host(t)
	r, err := Run(t.Context(), d, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if !strings.HasPrefix(r.Engine, "criu ") || r.Start <= 0 || r.Dump <= 0 || r.Restore <= 0 || r.Bytes < memorySize {
		t.Errorf("the report %+v lacks something", r)
	}
	wantNothing(t, data)
}

func TestTheProgramIsReachableOrCopied(t *testing.T) {
	path := reachable()
	own, err := os.Stat(ownFile)
	if err != nil {
		t.Fatal(err)
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(there, own) {
		t.Errorf("this program is said to be at %q (%v), want its own file, which is on the root file system", path, err)
	}
	copied := filepath.Join(t.TempDir(), "canary")
	if err := copySelf(copied); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(copied)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() != own.Size() || info.Mode().Perm() != 0o755 {
		t.Errorf("the copy has %d bytes and mode %o, want %d and 755", info.Size(), info.Mode().Perm(), own.Size())
	}
	if err := copySelf(copied); err == nil {
		t.Error("a file that was there was overwritten")
	}
	root := t.TempDir()
	spec, err := (Options{Root: root, Own: true}).spec()
	if err != nil || spec.Root != root || spec.Command[0] != "/canary" {
		t.Errorf("with a root of its own it runs %v in %q: %v", spec.Command, spec.Root, err)
	}
}

// failing is a driver that fails at one point.
type failing struct {
	Driver
	capture, restore error
	damage           bool
}

func (f failing) Capture(ctx context.Context, fence driver.Fence, sink driver.Sink) (driver.Captured, error) {
	c, err := f.Driver.Capture(ctx, fence, sink)
	return c, errors.Join(err, f.capture)
}

func (f failing) Restore(ctx context.Context, fence driver.Fence, spec schemas.Spec, s driver.Source, b schemas.Boot, begin func(context.Context) error) (driver.Instance, error) {
	if f.restore != nil {
		return driver.Instance{}, f.restore
	}
	if f.damage {
		// Another canary in its place, which has heard nothing.
		return f.Driver.Start(ctx, fence, spec, begin)
	}
	return f.Driver.Restore(ctx, fence, spec, s, b, begin)
}

func TestFailuresAreNamedAndLeaveNothing(t *testing.T) {
	refused := &driver.Error{Kind: driver.Refused, Text: "it can't be"}
	for name, c := range map[string]struct {
		driver   failing
		says     string
		attempts int
	}{
		"dump":        {failing{capture: refused}, "dump the canary: it can't be", 1},
		"may pass":    {failing{restore: errors.New("a moment's reason")}, "restore the canary: a moment's reason", 2},
		"not the one": {failing{damage: true}, "ask the restored canary", 1},
	} {
		t.Run(name, func(t *testing.T) {
			d, data := host(t)
			c.driver.Driver = d
			r, err := Run(t.Context(), c.driver, options)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("run: %v, want an error that says %q", err, c.says)
			}
			if r.Attempts != c.attempts {
				t.Errorf("%d attempts, want %d", r.Attempts, c.attempts)
			}
			wantNothing(t, data)
		})
	}
}

func TestGivingUpLeavesNothing(t *testing.T) {
	d, data := host(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, stopping{d, cancel}, options)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v, want that it was cancelled", err)
	}
	wantNothing(t, data)
}

// stopping cancels what it is asked to do when it captures.
type stopping struct {
	Driver
	cancel func()
}

func (s stopping) Capture(ctx context.Context, f driver.Fence, sink driver.Sink) (driver.Captured, error) {
	s.cancel()
	return s.Driver.Capture(ctx, f, sink)
}

func TestCompareFindsWhatIsWrong(t *testing.T) {
	before := Answer{Token: "a", Listen: "127.1.1.1:1", Intact: true, Ticks: 7, Asked: 3, Child: 9, Heard: 3}
	good := before
	good.Asked, good.Heard = 4, 4
	if err := (&run{asked: 3}).compare(before, good); err != nil {
		t.Errorf("a good answer: %v", err)
	}
	for says, change := range map[string]func(*Answer){
		"another program": func(a *Answer) { a.Token = "b" },
		"memory":          func(a *Answer) { a.Intact = false },
		"counter":         func(a *Answer) { a.Ticks = 6 },
		"asked 3 times":   func(a *Answer) { a.Asked = 3 },
		"child":           func(a *Answer) { a.Heard = 1 },
	} {
		bad := good
		change(&bad)
		if err := (&run{asked: 3}).compare(before, bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("compare: %v, want an error that says %q", err, says)
		}
	}
}

func TestMemoryImageIsStrict(t *testing.T) {
	m := memoryImage{content: make(map[string][]byte)}
	if err := m.Add(image.Entry{Name: "a", Type: image.TypeFile, Size: 3}, strings.NewReader("ab")); err == nil {
		t.Error("a file that is shorter than it says was taken")
	}
	if err := m.Add(image.Entry{Name: "a", Type: image.TypeFile, Size: 2}, strings.NewReader("ab")); err != nil {
		t.Fatal(err)
	}
	r, err := m.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(r); string(b) != "ab" || m.bytes != 2 {
		t.Errorf("got %q of %d bytes back", b, m.bytes)
	}
	if _, err := m.Open("b"); err == nil {
		t.Error("a file that isn't there was opened")
	}
}
