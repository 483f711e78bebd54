// Package adoptspec is the vocabulary of sessions that are process trees which others started:
// the options that the process driver takes in a schemas.Spec. The command line writes them and
// the driver reads them.
package adoptspec

import (
	"encoding/json"

	"github.com/diapause/diapause/schemas"
)

// Driver is the name of the driver that takes these options. Hosts list their drivers by name, and
// the first is the default: this one must not be.
const Driver schemas.DriverName = "process"

// Options name the first process of the tree. A pid alone may be another process's by the time
// that it is looked at.
type Options struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // when it was started, in ticks since the machine's boot, as /proc/PID/stat has it
	Boot  string `json:"boot"`  // the machine's boot, as /proc/sys/kernel/random/boot_id has it
}

// Of gives the options that a spec has for the process driver. It reports whether there are any.
func Of(s schemas.Spec) (o Options, ok bool, err error) {
	ok, err = s.GetOptions(Driver, &o)
	return o, ok, err
}

// Request fills in a request for a session of the tree that the options name.
func Request(r schemas.RunRequest, program string, o Options) *schemas.RunRequest {
	var s schemas.Spec
	if err := s.SetOptions(Driver, o); err != nil {
		panic(err) // Options has plain fields only: they can always be encoded
	}
	spec, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	r.Driver, r.Program, r.Spec, r.Existing = Driver, program, spec, schemas.ExistingChosen
	return &r
}
