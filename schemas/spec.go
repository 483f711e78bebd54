package schemas

import "time"

// Spec is how a session is to run. It holds secrets (environment, command):
// no driver writes it to a disk.
type Spec struct {
	Command []string          `json:"command"`
	Env     []string          `json:"env,omitempty"`  // "K=V", complete: nothing is inherited
	Dir     string            `json:"dir,omitempty"`  // working directory inside the session; "/" if empty
	User    string            `json:"user,omitempty"` // "uid[:gid]" or a name of the session's own passwd; root if empty
	Root    string            `json:"root,omitempty"` // a directory on the host in place of its root
	TTY     bool              `json:"tty,omitempty"`
	Rows    uint16            `json:"rows,omitempty"`    // of the terminal, 24 if zero
	Cols    uint16            `json:"cols,omitempty"`    // of the terminal, 80 if zero
	Memory  int64             `json:"memory,omitempty"`  // bytes; 0: no limit
	CPUs    float64           `json:"cpus,omitempty"`    // 1.5 is one and a half cores; 0: no limit
	Pids    int64             `json:"pids,omitempty"`    // 0: no limit
	Network string            `json:"network,omitempty"` // "host" (also if empty) or "none"
	Hooks   Hooks             `json:"hooks,omitzero"`
	Labels  map[string]string `json:"labels,omitempty"`
	Docker  *Docker           `json:"docker,omitempty"` // for the docker driver alone
}

// Hooks are commands run by /bin/sh -c inside the session, each within Timeout.
// A hook that fails or runs out of time is reported and stops nothing.
type Hooks struct {
	OnSuspend string        `json:"on_suspend,omitempty"` // before the freeze
	OnResume  string        `json:"on_resume,omitempty"`  // after a resume or rollback
	OnFork    string        `json:"on_fork,omitempty"`    // after a fork, in the new session
	Timeout   time.Duration `json:"timeout,omitempty"`    // 10 s if zero
}

// ExitStatus is how a command ended: Code, or 128 + Signal if a signal ended it.
type ExitStatus struct {
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
	Reason string `json:"reason,omitempty"` // "out of memory" and the like
}

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
