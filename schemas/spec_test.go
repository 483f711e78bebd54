package schemas_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
)

// Specs are sealed in records: what earlier versions wrote is read, and written as they
// read it.
func TestSpecOfEarlierVersions(t *testing.T) {
	const sealed = `{"command":null,"env":["A=b"],"memory":1024,"hooks":{"on_resume":"true"},"labels":{"a":"b"},` +
		`"docker":{"image":"postgres:17","volumes":["pg:/data"],"restart":"always","health_each":30000000000,"binds":true}}`
	var s schemas.Spec
	if err := json.Unmarshal([]byte(sealed), &s); err != nil {
		t.Fatal(err)
	}
	if s.Memory != 1024 || s.Hooks.OnResume != "true" || s.Labels["a"] != "b" || len(s.Options) != 1 {
		t.Errorf("read as %+v", s)
	}
	o, ok, err := dockerspec.Of(s)
	want := dockerspec.Options{Image: "postgres:17", Volumes: []string{"pg:/data"}, Restart: "always", HealthEach: 30 * time.Second, Binds: true}
	if err != nil || !ok || !reflect.DeepEqual(o, want) {
		t.Errorf("options %+v, %v, %v", o, ok, err)
	}
	data, err := json.Marshal(dockerspec.With(s, o))
	if err != nil || string(data) != sealed {
		t.Errorf("written as %s, %v", data, err)
	}
}

func TestSpecOptions(t *testing.T) {
	type options struct {
		Kernel string `json:"kernel"`
	}
	a := schemas.Spec{Command: []string{"x"}}
	if err := a.SetOptions("vm", options{"6.1"}); err != nil {
		t.Fatal(err)
	}
	b := dockerspec.With(a, dockerspec.Options{Image: "i"})
	if len(a.Options) != 1 {
		t.Errorf("the options of a copy changed the spec: %s", a.Options)
	}
	data, err := json.Marshal(&b) // also by a pointer
	if err != nil || string(data) != `{"command":["x"],"docker":{"image":"i"},"vm":{"kernel":"6.1"}}` {
		t.Errorf("%s, %v", data, err)
	}
	var c schemas.Spec
	if err := json.Unmarshal(data, &c); err != nil || !reflect.DeepEqual(b, c) {
		t.Errorf("read back as %+v, %v", c, err)
	}
	var o options
	if ok, err := c.GetOptions("vm", &o); !ok || err != nil || o.Kernel != "6.1" {
		t.Errorf("options %+v, %v, %v", o, ok, err)
	}
	if ok, err := c.GetOptions("other", &o); ok || err != nil {
		t.Errorf("options of another driver: %v, %v", ok, err)
	}
	if _, err := c.GetOptions("docker", new(int)); err == nil || !strings.Contains(err.Error(), "options of driver docker") {
		t.Errorf("options of another type: %v", err)
	}
}

func TestSpecMembers(t *testing.T) {
	var s schemas.Spec
	if err := json.Unmarshal([]byte(`{"Command":["x"],"docker":null,"CPUS":2}`), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Options) != 0 || s.CPUs != 2 || len(s.Command) != 1 {
		t.Errorf("read as %+v", s)
	}
	if err := s.SetOptions("Command", 1); err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(s); err == nil {
		t.Errorf("a driver of a field's name is written: %s", data)
	}
	for _, bad := range []string{`{"command":1}`, `[]`, `"x"`} {
		if err := json.Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestLoosened(t *testing.T) {
	for want, s := range map[string]schemas.Spec{
		"":                                     {CapDrop: []string{"KILL"}, NoNewPrivs: true},
		"capabilities SYSLOG, NET_ADMIN":       {CapAdd: []string{"SYSLOG", "NET_ADMIN"}},
		"any system call":                      {Seccomp: schemas.Unconfined},
		"system calls by a profile of its own": {Seccomp: "{}"},
	} {
		if got := strings.Join(s.Loosened(), "; "); got != want {
			t.Errorf("%+v is loosened by %q, want %q", s, got, want)
		}
	}
}

func TestNeeds(t *testing.T) {
	for want, s := range map[schemas.Feature]schemas.Spec{
		"":                       {Network: schemas.NetworkHost, Memory: 1, Root: "/srv/root"},
		schemas.FeatureNetwork:   {Network: schemas.NetworkPrivate},
		schemas.FeatureDisk:      {Disk: 1},
		schemas.FeatureRights:    {CapDrop: []string{"KILL"}},
		schemas.FeatureRoot:      {Root: "oci:alpine:3"},
		schemas.FeatureRecording: {TTY: true, Record: schemas.RecordOutput},
	} {
		got := s.Needs()
		if len(got) > 1 || len(got) == 0 && want != "" || len(got) == 1 && got[0] != want {
			t.Errorf("%+v needs %v, want %q", s, got, want)
		}
		if unknown := schemas.Unknown(got); len(unknown) > 0 {
			t.Errorf("this version doesn't know %v", unknown)
		}
	}
	if got := schemas.Unknown([]schemas.Feature{schemas.FeatureDisk, "later"}); len(got) != 1 || got[0] != "later" {
		t.Errorf("unknown are %v", got)
	}
}
