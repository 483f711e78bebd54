// Package dockerspec is the vocabulary of sessions that are Docker containers: the options
// that the docker driver takes in a schemas.Spec. The command line writes them and the
// driver reads them.
package dockerspec

import (
	"encoding/json"
	"time"

	"github.com/diapause/diapause/schemas"
)

// Driver is the name of the driver that takes these options.
const Driver schemas.DriverName = "docker"

// Of gives the options that a spec has for the docker driver. It reports whether there are
// any.
func Of(s schemas.Spec) (o Options, ok bool, err error) {
	ok, err = s.GetOptions(Driver, &o)
	return o, ok, err
}

// With gives a spec these options for the docker driver.
func With(s schemas.Spec, o Options) schemas.Spec {
	if err := s.SetOptions(Driver, o); err != nil {
		panic(err) // Options has plain fields only: they can always be encoded
	}
	return s
}

// Request fills in a request for a session of the container that the options name.
func Request(r schemas.RunRequest, o Options) *schemas.RunRequest {
	spec, err := json.Marshal(With(schemas.Spec{}, o))
	if err != nil {
		panic(err) // of plain fields, as in With
	}
	r.Driver, r.Program, r.Spec, r.Existing = Driver, o.Container, spec, schemas.ExistingChosen
	return &r
}

// Options say how a container is to run, or which existing one becomes the session, in the
// words of `docker run`. Command, environment, directory, user, terminal and limits are in
// schemas.Spec: what is empty there is the image's.
type Options struct {
	Image string `json:"image,omitempty"`

	// Container is the name or id of an existing container that becomes the session as it
	// is. Only Remove, Binds and SharedVolumes may be set beside it.
	Container string `json:"container,omitempty"`
	// Remove removes such a container when it is suspended. By default it is kept, stopped.
	Remove bool `json:"remove,omitempty"`

	Name       string            `json:"name,omitempty"`       // of the container; made of the session's if empty
	Entrypoint []string          `json:"entrypoint,omitempty"` // the image's if empty
	Volumes    []string          `json:"volumes,omitempty"`    // NAME:/path[:ro], /host/path:/path[:ro], or /path
	Tmpfs      []string          `json:"tmpfs,omitempty"`      // /path[:options]
	Publish    []string          `json:"publish,omitempty"`    // [[ip:]port:]port[/proto]
	Networks   []string          `json:"networks,omitempty"`   // the engine's default if empty
	Aliases    []string          `json:"aliases,omitempty"`    // in all of them
	Restart    string            `json:"restart,omitempty"`    // no, always, unless-stopped, on-failure[:n]
	Labels     map[string]string `json:"labels,omitempty"`
	Ulimits    []string          `json:"ulimits,omitempty"` // name=soft[:hard]
	CapAdd     []string          `json:"cap_add,omitempty"`
	CapDrop    []string          `json:"cap_drop,omitempty"`
	Devices    []string          `json:"devices,omitempty"` // /dev/x[:/dev/y[:rwm]]
	ExtraHosts []string          `json:"extra_hosts,omitempty"`
	Hostname   string            `json:"hostname,omitempty"`
	ReadOnly   bool              `json:"read_only,omitempty"`
	Init       bool              `json:"init,omitempty"`
	ShmSize    int64             `json:"shm_size,omitempty"`   // bytes
	HealthCmd  string            `json:"health_cmd,omitempty"` // run by the container's shell
	HealthEach time.Duration     `json:"health_each,omitempty"`

	// Binds captures the contents of bind mounts. By default only their configuration is
	// captured.
	Binds bool `json:"binds,omitempty"`
	// SharedVolumes replaces the contents of volumes that other containers use, too, when
	// the session resumes from a snapshot.
	SharedVolumes bool `json:"shared_volumes,omitempty"`
}
