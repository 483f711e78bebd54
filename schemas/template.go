package schemas

import (
	"fmt"
	"path"
	"time"
)

// ofTemplates begins the ids under which the records of templates are kept. No new session has such an id.
const ofTemplates = "-template-"

// MaxTemplateName is how long the name of a template may be.
const MaxTemplateName = 64 - len(ofTemplates)

// ParseTemplate reads the name of a template, "[tenant/]name", and gives that of its record.
func ParseTemplate(s string) (Name, error) {
	n, err := ParseName(s)
	if err != nil || len(n.Session) > MaxTemplateName {
		return Name{}, fmt.Errorf("template %q: want 1 to %d of A-Z a-z 0-9 _ -", s, MaxTemplateName)
	}
	if n.ValidateNew() != nil {
		return Name{}, fmt.Errorf("template %q: its name can't begin with -", s)
	}
	n.Session = ofTemplates + n.Session
	return n, nil
}

// Template gives the name of a template as ParseTemplate reads it, if the name is that of a template's record.
func (n Name) Template() (name string, ok bool) {
	if len(n.Session) <= len(ofTemplates) || n.Session[:len(ofTemplates)] != ofTemplates {
		return "", false
	}
	n.Session = n.Session[len(ofTemplates):]
	return n.String(), true
}

// TemplateView is a template as clients see it.
type TemplateView struct {
	Name    string            `json:"name"` // [tenant/]name
	Tenant  Tenant            `json:"tenant"`
	UID     UID               `json:"uid"`
	Lineage string            `json:"lineage"` // its own: nothing of another session's is in it
	State   TemplateState     `json:"state"`
	Waits   string            `json:"waits,omitempty"` // while it is being removed: what for
	Created time.Time         `json:"created"`
	Origin  *Origin           `json:"origin,omitempty"`
	Driver  DriverName        `json:"driver"`
	Class   string            `json:"class"`
	Program string            `json:"program"`
	TTY     bool              `json:"tty,omitempty"`
	Network string            `json:"network,omitempty"`
	Root    *RootImage        `json:"root,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Snapshot is the one that it holds, in its own lineage; none while it is being made.
	Snapshot string `json:"snapshot,omitempty"`
	// At is when what it holds was captured.
	At           time.Time `json:"at,omitzero"`
	LogicalBytes int64     `json:"logical_bytes"` // what was captured
	StoredBytes  int64     `json:"stored_bytes"`  // what that takes in the store
}

// TemplateState is how far a template is.
type TemplateState string

// The states of a template.
const (
	TemplateMaking   TemplateState = "making"   // its image is being written; it isn't listed yet
	TemplateReady    TemplateState = "ready"    // sessions can be made from it
	TemplateRemoving TemplateState = "removing" // its image stays until those that began from it have images of their own
	TemplateRemoved  TemplateState = "removed"  // its keys and its image are gone
)

// ViewTemplate shows the record of a template.
func ViewTemplate(r SessionRecord) TemplateView {
	v := TemplateView{
		Tenant: r.Tenant, UID: r.UID, Lineage: r.Lineage, State: TemplateReady, Created: r.Created, Origin: r.Origin, Driver: r.Driver, Class: r.Class, Program: r.Program,
		TTY: r.TTY, Network: r.Network, Root: r.Root, Labels: r.Labels,
	}
	v.Name, _ = r.Name().Template()
	switch {
	case r.State == Deleted && r.Op == nil:
		v.State = TemplateRemoved
	case r.State == Deleted:
		v.State, v.Waits = TemplateRemoving, r.Transition.Reason
	case r.Op != nil || r.Head == nil:
		v.State = TemplateMaking
	}
	if v.State == TemplateReady {
		v.Snapshot = path.Base(r.Head.Name)
	}
	if r.Size != nil {
		v.At, v.LogicalBytes, v.StoredBytes = r.Size.At, r.Size.Logical, r.Size.Stored
	}
	return v
}
