package api

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/dockerspec"
)

// A field of a request stays within the sessions that it names, or reaches what belongs to the host, to keys or
// to other tenants. Only operators may ask for the latter. A field that the table doesn't have counts as
// reaching; a test looks that the table has all of them.
type extent func(value reflect.Value) bool

var (
	// stays: it is about the session, or confine looks at it.
	stays extent = func(reflect.Value) bool { return false }
	// reaches, as soon as it is set.
	reaches extent = func(v reflect.Value) bool { return !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0) }
	// one reaches if it is this value.
	one = func(text string) extent { return func(v reflect.Value) bool { return v.String() == text } }
)

// extents are the fields of a request by their place, as a client writes them.
var extents = map[string]extent{
	"name": stays, "actor": stays, "reason": stays, "wait": stays, "to": stays, "snapshot": stays, "within": stays, "clean": stays,
	"description": stays, "run_id": stays, "tenant": stays, "reset": stays, "shred": stays, "once": stays, "list": stays, "page": stays, "usage": stays, "activity": stays,
	"policy":  stays,   // of a session: confine looks at the scope
	"host":    stays,   // which of the hosts that can take it
	"force":   stays,   // of a verb about hosts
	"store":   stays,   // of verify; the others are verbs about the store
	"publish": reaches, // a port of the host
	"key":     reaches,
	"expose":  stays, // expose looks at what the session reaches
	"label":   stays,
	"share":   stays,
	"redact":  stays,
	"reach":   stays,
	"token":   reaches,
	"listen":  reaches, // a port of a gateway's machine

	"run.class": stays, "run.driver": stays, "run.made_by": stays, "run.idle": stays, "run.tty": stays, "run.no_wait": stays, "run.on_host_loss": stays,
	"run.on_suspend_failure": stays, "run.on_resume_failure": stays, "run.host": stays, "run.placement": stays, "run.program": stays,
	"run.existing": reaches, // what is on the host already
	"run.of":       reaches,
	"run.import":   reaches, // a host is asked for it
	"run.desktop":  portOfHost,

	"run.spec.command": stays, "run.spec.env": stays, "run.spec.dir": stays, "run.spec.user": stays, "run.spec.tty": stays, "run.spec.rows": stays,
	"run.spec.cols": stays, "run.spec.memory": stays, "run.spec.cpus": stays, "run.spec.pids": stays, "run.spec.disk": stays,
	"run.spec.allow_out": stays, "run.spec.hooks": stays, "run.spec.cap_drop": stays, "run.spec.no_new_privs": stays, "run.spec.labels": stays,
	"run.spec.shell_integration": stays, "run.spec.record": stays, "run.spec.record_keep": stays, "run.spec.desktop": stays,
	"run.spec.network": one(schemas.NetworkHost),
	"run.spec.root":    ofHost,
	"run.spec.publish": reaches,
	"run.spec.cap_add": reaches,
	"run.spec.seccomp": reaches,

	"run.spec.docker.name": stays, "run.spec.docker.entrypoint": stays, "run.spec.docker.tmpfs": stays, "run.spec.docker.aliases": stays,
	"run.spec.docker.restart": stays, "run.spec.docker.cap_drop": stays, "run.spec.docker.extra_hosts": stays, "run.spec.docker.hostname": stays,
	"run.spec.docker.read_only": stays, "run.spec.docker.init": stays, "run.spec.docker.shm_size": stays, "run.spec.docker.health_cmd": stays, "run.spec.docker.health_each": stays,
	"run.spec.docker.image":          reaches, // also one that the engine has of others, as oci:engine:NAME
	"run.spec.docker.container":      reaches,
	"run.spec.docker.remove":         reaches,
	"run.spec.docker.volumes":        shared,
	"run.spec.docker.publish":        reaches,
	"run.spec.docker.networks":       reaches, // the host's, or one with others in it
	"run.spec.docker.labels":         reaches, // which other programs of the host may act on
	"run.spec.docker.ulimits":        reaches,
	"run.spec.docker.cap_add":        reaches,
	"run.spec.docker.devices":        reaches,
	"run.spec.docker.binds":          reaches,
	"run.spec.docker.shared_volumes": reaches,
}

// portOfHost is a desktop that is to have a port of the host.
func portOfHost(v reflect.Value) bool {
	d, _ := v.Interface().(*schemas.DesktopRequest)
	return d != nil && d.VNCPort != 0
}

// ofHost is a root that shows files of the host: all but an image from a registry. Without a root a process
// tree has the host's.
func ofHost(v reflect.Value) bool {
	ref, image := schemas.Spec{Root: v.String()}.RootImage()
	return !image || slices.ContainsFunc([]string{"tar:", "layout:", "engine:"}, func(p string) bool { return strings.HasPrefix(ref, p) })
}

// shared is a volume that isn't the container's alone: a directory of the host, or one with a name.
func shared(v reflect.Value) bool {
	volumes, _ := v.Interface().([]string)
	return slices.ContainsFunc(volumes, func(s string) bool { return strings.Contains(s, ":") })
}

// reaching lists the fields of a request that reach reaches the sessions that it names.
func reaching(req *schemas.Request) (fields []string) {
	fields = reachingIn("", reflect.ValueOf(*req), "run")
	if req.Run == nil {
		return fields
	}
	fields = append(fields, reachingIn("run.", reflect.ValueOf(*req.Run), "spec")...)
	var spec schemas.Spec
	if err := json.Unmarshal(req.Run.Spec, &spec); err != nil {
		return append(fields, "run.spec")
	}
	var container dockerspec.Options
	for driver, options := range spec.Options {
		if driver != dockerspec.Driver || json.Unmarshal(options, &container) != nil {
			fields = append(fields, "run.spec."+string(driver))
		}
	}
	if _, is := spec.Options[dockerspec.Driver]; is && req.Run.Driver != dockerspec.Driver { // furnish leaves such a spec alone
		fields = append(fields, "run.spec."+string(dockerspec.Driver))
	}
	fields = append(fields, reachingIn("run.spec.docker.", reflect.ValueOf(container))...)
	of := reachingIn("run.spec.", reflect.ValueOf(spec))
	if req.Run.Driver == dockerspec.Driver && container.Image != "" && spec.Root == "" { // it has its image's
		of = slices.DeleteFunc(of, func(field string) bool { return field == "run.spec.root" })
	}
	return append(fields, of...)
}

// mayCarry refuses to have a session of a caller who is confined to a tenant made again, or elsewhere, with what an
// operator has let it reach.
func mayCarry(c Caller, r schemas.SessionRecord) error {
	alone := r.Root != nil && (r.Network == schemas.NetworkPrivate || r.Network == schemas.NetworkNone)
	if c.Tenant == "" || alone && len(r.Loosened) == 0 && len(r.Publish) == 0 {
		return nil
	}
	return schemas.FailedError(schemas.ReasonDenied, "session %s reaches the host or other tenants", r.Name()).
		WithHint("that takes a token with the role operator")
}

// reachingIn looks at the fields of a struct, but for those that are looked into instead.
func reachingIn(prefix string, v reflect.Value, but ...string) (fields []string) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "-" || slices.Contains(but, name) {
			continue
		}
		is, known := extents[prefix+name]
		if !known {
			is = reaches
		}
		if is(v.Field(i)) {
			fields = append(fields, prefix+name)
		}
	}
	return fields
}
