package api

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
	"github.com/diapause/diapause/schemas/dockerspec"
	"github.com/diapause/diapause/services/fleet"
)

// fieldsOf lists the fields of a request that reaching looks at, as it names them.
func fieldsOf(prefix string, t reflect.Type, into map[string]reflect.Type) (all []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if inner, ok := into[prefix+name]; ok {
			all = append(all, fieldsOf(prefix+name+".", inner, into)...)
			continue
		}
		all = append(all, prefix+name)
	}
	return all
}

// Every field says whether it reaches the host, keys or other tenants: a new one has to be thought about.
func TestEveryFieldHasAnExtent(t *testing.T) {
	into := map[string]reflect.Type{"run": reflect.TypeFor[schemas.RunRequest](), "run.spec": reflect.TypeFor[schemas.Spec]()}
	fields := fieldsOf("", reflect.TypeFor[schemas.Request](), into)
	fields = append(fields, fieldsOf("run.spec.docker.", reflect.TypeFor[dockerspec.Options](), nil)...)
	slices.Sort(fields)
	known := slices.Sorted(maps.Keys(extents))
	for _, f := range fields {
		if !slices.Contains(known, f) {
			t.Errorf("%s: extents doesn't say whether it reaches beyond the session", f)
		}
	}
	for _, f := range known {
		if !slices.Contains(fields, f) {
			t.Errorf("%s: extents has it, a request doesn't", f)
		}
	}
	if len(fields) < 60 {
		t.Errorf("only %d fields were found", len(fields))
	}
}

func running(t *testing.T, driver schemas.DriverName, spec string) schemas.Request {
	t.Helper()
	if !json.Valid([]byte(spec)) && spec != "{" {
		t.Fatalf("%s isn't JSON", spec)
	}
	return schemas.Request{Name: "acme/web", Run: &schemas.RunRequest{Program: "sh", Driver: driver, Spec: []byte(spec)}}
}

func TestReaching(t *testing.T) {
	const tree, docker = schemas.DriverName("criu"), dockerspec.Driver
	for _, c := range []struct {
		req  schemas.Request
		want string
	}{
		{schemas.Request{Name: "acme/web"}, ""},
		{schemas.Request{Name: "acme/web", To: "acme/twin", Snapshot: "1-2", Shred: true, Host: "b"}, ""},
		{schemas.Request{Name: "acme/web", Publish: []string{}}, ""},
		{schemas.Request{Name: "acme/web", Publish: []string{"80:80"}}, "publish"},
		{schemas.Request{Name: "acme/web", Run: &schemas.RunRequest{Spec: []byte(`{"root":"oci:alpine:3"}`), Desktop: &schemas.DesktopRequest{App: "xterm"}}}, ""},
		{schemas.Request{Name: "acme/web", Run: &schemas.RunRequest{Spec: []byte(`{"root":"oci:alpine:3"}`), Desktop: &schemas.DesktopRequest{VNCPort: 5901}}}, "run.desktop"},
		{schemas.Request{Name: "acme/web", Key: &schemas.KeyRequest{}}, "key"},
		{schemas.Request{Name: "acme/web", Token: &schemas.TokenRequest{}}, "token"},
		{running(t, tree, `{"command":["sh"],"root":"oci:alpine:3"}`), ""},
		{running(t, tree, `{"command":["sh"],"root":"oci:alpine:3","cap_drop":["ALL"],"allow_out":["none"],"network":"private","no_new_privs":true}`), ""},
		{running(t, tree, `{"command":["sh"]}`), "run.spec.root"},
		{running(t, tree, `{"command":["sh"],"root":"/"}`), "run.spec.root"},
		{running(t, tree, `{"command":["sh"],"root":"oci:tar:/etc/shadow"}`), "run.spec.root"},
		{running(t, tree, `{"command":["sh"],"root":"oci:layout:/srv"}`), "run.spec.root"},
		{running(t, tree, `{"command":["sh"],"root":"oci:engine:theirs"}`), "run.spec.root"},
		{running(t, tree, `{"command":["sh"],"root":"oci:alpine:3","network":"host"}`), "run.spec.network"},
		{running(t, tree, `{"command":["sh"],"root":"oci:alpine:3","NETWORK":"host"}`), "run.spec.network"},
		{running(t, tree, `{"command":["sh"],"root":"oci:alpine:3","network":"none","network":"host"}`), "run.spec.network"},
		{running(t, tree, `{"command":["sh"],"root":"oci:alpine:3","publish":["80:80"]}`), "run.spec.publish"},
		{running(t, tree, `{"command":["sh"],"root":"oci:alpine:3","cap_add":["SYS_ADMIN"]}`), "run.spec.cap_add"},
		{running(t, tree, `{"command":["sh"],"root":"oci:alpine:3","seccomp":"unconfined"}`), "run.spec.seccomp"},
		{running(t, tree, `{"command":["sh"],"docker":{"image":"alpine"}}`), "run.spec.docker, run.spec.docker.image, run.spec.root"}, // a process tree all the same
		{running(t, "", `{"command":["sh"],"docker":{"image":"alpine"}}`), "run.spec.docker, run.spec.docker.image, run.spec.root"},
		{running(t, tree, `{"command":["sh"],"root":"oci:alpine:3","other":{}}`), "run.spec.other"},
		{running(t, tree, `{"command":["sh"],"root":"oci:alpine:3","docker":{}}`), "run.spec.docker"}, // it would get the host's network
		{running(t, tree, `{`), "run.spec"},
		{running(t, docker, `{"docker":{"image":"alpine","volumes":["/data"],"tmpfs":["/tmp"]}}`), "run.spec.docker.image"},
		{running(t, docker, `{"docker":{"image":"alpine","volumes":["/data","/etc:/etc"]}}`), "run.spec.docker.image, run.spec.docker.volumes"},
		{running(t, docker, `{"docker":{"image":"alpine","volumes":["theirs:/data"]}}`), "run.spec.docker.image, run.spec.docker.volumes"},
		{running(t, docker, `{"docker":{"image":"alpine","networks":["host"]}}`), "run.spec.docker.image, run.spec.docker.networks"},
		{running(t, docker, `{"docker":{"image":"alpine","devices":["/dev/kmsg"]}}`), "run.spec.docker.image, run.spec.docker.devices"},
		{running(t, docker, `{"docker":{"image":"alpine","cap_add":["ALL"]}}`), "run.spec.docker.image, run.spec.docker.cap_add"},
		{running(t, docker, `{"docker":{"container":"theirs"}}`), "run.spec.docker.container, run.spec.root"},
		{running(t, docker, `{"Docker":{"container":"theirs"}}`), "run.spec.Docker, run.spec.root"},
	} {
		if got := strings.Join(reaching(&c.req), ", "); got != c.want {
			spec := ""
			if c.req.Run != nil {
				spec = string(c.req.Run.Spec)
			}
			t.Errorf("%+v %s reaches by %q, want %q", c.req, spec, got, c.want)
		}
	}
	adopting := running(t, dockerspec.Driver, `{"docker":{"image":"alpine"}}`)
	adopting.Run.Existing = schemas.ExistingChosen
	if got := reaching(&adopting); !slices.Contains(got, "run.existing") {
		t.Errorf("adopting reaches by %v", got)
	}
	adopting.Run = adoptspec.Request(schemas.RunRequest{}, "sh", adoptspec.Options{PID: 7})
	if got := reaching(&adopting); !slices.Contains(got, "run.existing") || !slices.Contains(got, "run.spec.process") {
		t.Errorf("adopting a process reaches by %v", got)
	}
	adopting.Run.Existing = ""
	if got := reaching(&adopting); !slices.Contains(got, "run.spec.process") {
		t.Errorf("a process that is named alone reaches by %v", got)
	}
}

// A session that reaches the host by what an operator asked for isn't a tenant's to make again.
func TestMayCarry(t *testing.T) {
	image := &schemas.RootImage{Ref: "alpine:3"}
	for _, c := range []struct {
		r     schemas.SessionRecord
		fails bool
	}{
		{schemas.SessionRecord{Root: image, Network: schemas.NetworkPrivate}, false},
		{schemas.SessionRecord{Root: image, Network: schemas.NetworkNone}, false},
		{schemas.SessionRecord{Root: image, Network: schemas.NetworkHost}, true},
		{schemas.SessionRecord{Root: image}, true},
		{schemas.SessionRecord{Network: schemas.NetworkPrivate}, true},
		{schemas.SessionRecord{Root: image, Network: schemas.NetworkPrivate, Loosened: []string{"cap_add"}}, true},
		{schemas.SessionRecord{Root: image, Network: schemas.NetworkPrivate, Publish: []string{"80:80"}}, true},
	} {
		if err := mayCarry(Caller{Tenant: "acme"}, c.r); (schemas.ReasonOf(err) == schemas.ReasonDenied) != c.fails {
			t.Errorf("%+v: %v", c.r, err)
		}
		if err := mayCarry(Caller{}, c.r); err != nil {
			t.Errorf("an operator with %+v: %v", c.r, err)
		}
	}
}

// The default of an installation gives a tenant's session nothing of the host.
func TestGivenNetwork(t *testing.T) {
	for _, c := range []struct {
		standard string
		by       Caller
		want     string
	}{
		{schemas.NetworkHost, Caller{}, schemas.NetworkHost},
		{schemas.NetworkHost, Caller{Tenant: "acme"}, schemas.NetworkPrivate},
		{schemas.NetworkNone, Caller{Tenant: "acme"}, schemas.NetworkNone},
	} {
		r := &schemas.RunRequest{Spec: []byte(`{"command":["sh"]}`)}
		if err := (&maker{network: c.standard}).furnish(t.Context(), c.by, r); err != nil {
			t.Fatal(err)
		}
		var spec schemas.Spec
		if err := json.Unmarshal(r.Spec, &spec); err != nil || spec.Network != c.want {
			t.Errorf("with the default %s, %s gets %q, %v", c.standard, c.by.Tenant, spec.Network, err)
		}
	}
}

// Terminals are recorded by default as soon as no host has a version that would lose the keys.
func TestRecordedByDefault(t *testing.T) {
	knows := fleet.Host{Host: schemas.Host{Host: "new", Knows: schemas.Features()}}
	old := fleet.Host{Host: schemas.Host{Host: "old", Knows: []schemas.Feature{schemas.FeatureMove}}}
	for want, hosts := range map[string][]fleet.Host{schemas.RecordOutput: {knows, knows}, "": {knows, old}} {
		if got := recordBy(hosts); got != want {
			t.Errorf("with %d hosts, the last one of which is %s: %q", len(hosts), hosts[1].Host.Host, got)
		}
	}
}
