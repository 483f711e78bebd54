package drivers_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/drivers"
	"github.com/diapause/diapause/workers/fake"
)

// third is a driver that nothing else knows of: its programs have names, which only its own
// options say.
type third struct{ *fake.Driver }

type thirdOptions struct {
	Program string `json:"program"`
}

func (d third) Start(ctx context.Context, f driver.Fence, s schemas.Spec, begin func(context.Context) error) (driver.Instance, error) {
	var o thirdOptions
	if _, err := s.GetOptions("third", &o); err != nil {
		return driver.Instance{}, err
	}
	s.Command = []string{o.Program}
	return d.Driver.Start(ctx, f, s, begin)
}

func thirdSpec(t *testing.T, program string) (s schemas.Spec) {
	t.Helper()
	if err := s.SetOptions("third", thirdOptions{program}); err != nil {
		t.Fatal(err)
	}
	return s
}

// A new driver is registered, and passes the conformance suite, by what stands here.
func TestThirdDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Host {
		host := third{fake.New()}
		all := []drivers.Registration{{Name: "third", New: func(drivers.Config) (driver.Driver, string, error) { return host, "", nil }}}
		return drivertest.Host{
			Open: func(t *testing.T) driver.Driver {
				set, err := drivers.Open(drivers.Config{}, all)
				if err != nil {
					t.Fatal(err)
				}
				return set.ByName["third"]
			},
			Counting: thirdSpec(t, "count"), Missing: thirdSpec(t, "missing"),
			Count: func(t *testing.T, _ driver.Driver, uid schemas.UID) int {
				n, ok := host.Count(uid)
				if !ok {
					t.Fatalf("session %s doesn't count", uid)
				}
				return n
			},
			End: func(_ *testing.T, _ driver.Driver, uid schemas.UID) { host.Exit(uid, 7) },
		}
	})
}

type closing struct {
	driver.Driver
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

func TestOpen(t *testing.T) {
	closed := 0
	broken := errors.New("broken")
	give := func(d driver.Driver, lack string, err error) func(drivers.Config) (driver.Driver, string, error) {
		return func(drivers.Config) (driver.Driver, string, error) { return d, lack, err }
	}
	all := []drivers.Registration{
		{Name: "a", New: give(closing{fake.New(), &closed}, "", nil)},
		{Name: "b", New: give(nil, "there is no engine", nil)},
		{Name: "c", New: give(fake.New(), "", nil)},
	}
	set, err := drivers.Open(drivers.Config{}, all)
	if err != nil || len(set.ByName) != 2 || set.Lacks["b"] != "there is no engine" {
		t.Fatalf("%+v, %v", set, err)
	}
	if err := set.Close(); err != nil || closed != 1 {
		t.Errorf("closed %d times, %v", closed, err)
	}
	all = append(all, drivers.Registration{Name: "d", New: give(nil, "", &drivers.SettingError{Setting: "d", Err: broken})})
	_, err = drivers.Open(drivers.Config{}, all)
	if e := (*drivers.SettingError)(nil); !errors.As(err, &e) || e.Setting != "d" || !errors.Is(err, broken) || closed != 2 {
		t.Errorf("%v, closed %d times", err, closed)
	}
}

func TestRegistered(t *testing.T) {
	names := map[schemas.DriverName]bool{}
	for _, r := range drivers.All() {
		if names[r.Name] || r.New == nil || !schemas.ValidToken(string(r.Name)) {
			t.Errorf("registered as %+v", r)
		}
		names[r.Name] = true
		var s schemas.Spec
		if err := s.SetOptions(r.Name, struct{}{}); err != nil {
			t.Error(err)
		}
		if _, err := json.Marshal(s); err != nil { // a spec has a field of that name
			t.Error(err)
		}
	}
	bad := dockerspec.With(schemas.Spec{}, dockerspec.Options{Image: "i", Publish: []string{"x"}})
	if err := drivers.Check(dockerspec.Driver, bad); err == nil || !strings.Contains(err.Error(), `publish "x"`) {
		t.Errorf("a bad port: %v", err)
	}
	for _, name := range []schemas.DriverName{"criu", "third"} {
		if err := drivers.Check(name, bad); err != nil {
			t.Errorf("options of another driver: %v", err)
		}
	}
}

func TestDockerSetting(t *testing.T) {
	var docker drivers.Registration
	for _, r := range drivers.All() {
		if r.Name == dockerspec.Driver {
			docker = r
		}
	}
	if _, lack, err := docker.New(drivers.Config{Docker: "none"}); err != nil || !strings.Contains(lack, "--docker none") {
		t.Errorf("without an engine: %q, %v", lack, err)
	}
	_, _, err := docker.New(drivers.Config{Docker: "tcp://1.2.3.4", Data: t.TempDir(), Instance: "test"})
	if e := (*drivers.SettingError)(nil); !errors.As(err, &e) || e.Setting != "docker" {
		t.Errorf("an engine elsewhere: %v", err)
	}
}
