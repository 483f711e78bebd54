package driver

import "time"

// Docker is how a container is to run, or which one is to be taken over, in the words of
// `docker run`. Command, environment, directory, user, terminal and limits are in Spec:
// what is empty there is the image's.
type Docker struct {
	Image string `json:"image,omitempty"`

	// Container is the name or id of a container that is there already, and becomes the
	// session as it is. Nothing else is given then but Remove, Binds and SharedVolumes.
	Container string `json:"container,omitempty"`
	// Remove has such a container removed when it is suspended, rather than held stopped.
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

	// Binds has the contents of bind mounts captured, and not their configuration alone.
	Binds bool `json:"binds,omitempty"`
	// SharedVolumes has the contents of volumes that other containers use, too, replaced
	// when the session goes on from a snapshot.
	SharedVolumes bool `json:"shared_volumes,omitempty"`
}
