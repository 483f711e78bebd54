package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Spec is how a session is to run. It holds secrets (environment, command):
// no driver writes it to a disk.
type Spec struct {
	Command []string `json:"command"`
	Env     []string `json:"env,omitempty"`  // "K=V", complete: nothing is inherited
	Dir     string   `json:"dir,omitempty"`  // working directory inside the session; "/" if empty
	User    string   `json:"user,omitempty"` // "user[:group]", each a number or a name of the session's own passwd and group; root if empty
	Root    string   `json:"root,omitempty"` // a directory on the host in place of its root, or a container image: "oci:REF"
	TTY     bool     `json:"tty,omitempty"`
	Rows    uint16   `json:"rows,omitempty"`    // of the terminal, 24 if zero
	Cols    uint16   `json:"cols,omitempty"`    // of the terminal, 80 if zero
	Memory  int64    `json:"memory,omitempty"`  // bytes; 0: no limit
	CPUs    float64  `json:"cpus,omitempty"`    // 1.5 is one and a half cores; 0: no limit
	Pids    int64    `json:"pids,omitempty"`    // 0: no limit
	Disk    int64    `json:"disk,omitempty"`    // of its own files, bytes; 0: as the host has it
	Network string   `json:"network,omitempty"` // NetworkPrivate, NetworkHost or NetworkNone; the host's if empty, as in records of before
	// AllowOut are the only addresses that a private network reaches outside, as CIDR, or "none"
	// alone; all if empty.
	AllowOut []string `json:"allow_out,omitempty"`
	// Publish are the ports of a private network that its host has too, each as [ADDR:]HOST:PORT. Those
	// of the session's record count.
	Publish []string `json:"publish,omitempty"`
	Hooks   Hooks    `json:"hooks,omitzero"`
	Record  string   `json:"record,omitempty"` // of a terminal: RecordOff, RecordOutput or RecordInput; RecordOff if empty, as in records of before
	// RecordKeep is how much of a recording is kept in the store, in bytes; all if 0.
	RecordKeep int64 `json:"record_keep,omitempty"`
	// Desktop is the port inside the session at which a VNC server has its desktop; 0 if it is none.
	Desktop uint16 `json:"desktop,omitempty"`
	// ShellIntegration is Off if a shell of which the terminal is recorded isn't to print where commands begin and end. It does if this is
	// empty.
	ShellIntegration string `json:"shell_integration,omitempty"`

	// What the session may do on the host's kernel, beside the default. CapAdd counts after CapDrop.
	CapAdd     []string `json:"cap_add,omitempty"`  // names of capabilities, or ALL
	CapDrop    []string `json:"cap_drop,omitempty"` // likewise
	Seccomp    string   `json:"seccomp,omitempty"`  // Unconfined, or a profile in Docker's JSON; Docker's own and more if empty
	NoNewPrivs bool     `json:"no_new_privs,omitempty"`

	Labels map[string]string `json:"labels,omitempty"`

	// Options are what one driver alone understands, by the driver's name. In JSON each is
	// a member of that name beside the fields above. A driver ignores those of others.
	Options map[DriverName]json.RawMessage `json:"-"`
}

// The networks that a process tree may have.
const (
	NetworkPrivate = "private" // of its own, which leads out through the host
	NetworkHost    = "host"    // the host's, shared with all that runs there
	NetworkNone    = "none"    // of its own, which leads nowhere
)

// What is recorded of a session's terminal.
const (
	RecordOff    = "off"
	RecordOutput = "output"
	RecordInput  = "output+input"
)

// On and Off are what can be switched; as ShellIntegration the first is the same as none.
const (
	On  = "on"
	Off = "off"
)

// MinRecordKeep is the least that RecordKeep may be: less than one segment can't be kept.
const MinRecordKeep = 16 << 20

// Records are these.
var Records = []string{RecordOff, RecordOutput, RecordInput}

// DefaultNetwork is that of process trees that are run without a word on it, unless who runs the
// API says otherwise.
const DefaultNetwork = NetworkPrivate

// RootImage gives the container image that a session has in place of the host's root, as
// alpine:3, ghcr.io/owner/name@sha256:…, tar:/path, layout:/path or engine:NAME; false if it has none.
func (s Spec) RootImage() (ref string, ok bool) { return strings.CutPrefix(s.Root, "oci:") }

// RootImage is the container image below a session's own files.
type RootImage struct {
	Ref    string `json:"ref"`              // as run was told
	Digest string `json:"digest,omitempty"` // of the manifest that it was when the session started
}

// Unconfined is the Seccomp of a Spec whose system calls aren't filtered.
const Unconfined = "unconfined"

// Loosened lists what the session may do beyond the default, a phrase each.
func (s Spec) Loosened() (all []string) {
	if len(s.CapAdd) > 0 {
		all = append(all, "capabilities "+strings.Join(s.CapAdd, ", "))
	}
	switch s.Seccomp {
	case "":
	case Unconfined:
		all = append(all, "any system call")
	default:
		all = append(all, "system calls by a profile of its own")
	}
	return all
}

// Needs lists what a version has to know to run the session as it is to be: one that doesn't would
// leave it out.
func (s Spec) Needs() (all []Feature) {
	if s.Network == NetworkPrivate || len(s.AllowOut) > 0 || len(s.Publish) > 0 {
		all = append(all, FeatureNetwork)
	}
	if s.Disk > 0 {
		all = append(all, FeatureDisk)
	}
	if len(s.CapAdd) > 0 || len(s.CapDrop) > 0 || s.Seccomp != "" || s.NoNewPrivs {
		all = append(all, FeatureRights)
	}
	if _, ok := s.RootImage(); ok {
		all = append(all, FeatureRoot)
	}
	if s.Record != "" && s.Record != RecordOff {
		all = append(all, FeatureRecording)
	}
	return all
}

// Unknown lists the features that this version doesn't know.
func Unknown(needs []Feature) (all []Feature) {
	for _, f := range needs {
		if !slices.Contains(Features(), f) {
			all = append(all, f)
		}
	}
	return all
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

// plainSpec is a Spec without the options of drivers.
type plainSpec Spec

// specFields are the names of the members of a Spec that are no driver's options.
var specFields = func() (names []string) {
	for f := range reflect.TypeFor[Spec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}()

// isSpecField reports whether a member of a Spec's JSON is one of its fields, however it is
// capitalised.
func isSpecField(name string) bool {
	return slices.ContainsFunc(specFields, func(f string) bool { return strings.EqualFold(f, name) })
}

// MarshalJSON implements json.Marshaler.
func (s Spec) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(plainSpec(s))
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(bytes.TrimSuffix(data, []byte("}"))) // there is always a command before
	for _, name := range slices.Sorted(maps.Keys(s.Options)) {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if isSpecField(string(name)) {
			return nil, fmt.Errorf("encode options of driver %q: a spec has such a field", name)
		}
		fmt.Fprintf(out, ",%s:%s", key, s.Options[name])
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Spec) UnmarshalJSON(data []byte) error {
	var p plainSpec
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for name, value := range members {
		if isSpecField(name) || string(value) == "null" {
			continue
		}
		if p.Options == nil {
			p.Options = map[DriverName]json.RawMessage{}
		}
		p.Options[DriverName(name)] = value
	}
	*s = Spec(p)
	return nil
}

// SetOptions encodes a driver's options.
func (s *Spec) SetOptions(driver DriverName, options any) error {
	data, err := json.Marshal(options)
	if err != nil {
		return fmt.Errorf("encode the options of driver %s: %w", driver, err)
	}
	s.Options = maps.Clone(s.Options) // the spec may be a copy
	if s.Options == nil {
		s.Options = map[DriverName]json.RawMessage{}
	}
	s.Options[driver] = data
	return nil
}

// GetOptions decodes a driver's options. It reports whether there are any.
func (s Spec) GetOptions(driver DriverName, to any) (ok bool, err error) {
	data, ok := s.Options[driver]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(data, to); err != nil {
		return true, fmt.Errorf("decode the options of driver %s: %w", driver, err)
	}
	return true, nil
}
