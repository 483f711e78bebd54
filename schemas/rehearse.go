package schemas

import "fmt"

// Rehearse says which suspends are rehearsed: before the session's processes are killed, their
// image is restored in quarantine, up to the next instruction, and compared with them.
type Rehearse string

// Which suspends are rehearsed.
const (
	RehearseAlways  Rehearse = "always"
	RehearseChanged Rehearse = "changed" // unless the session holds what it held at its last rehearsal
	RehearseNever   Rehearse = "never"
)

// Rehearses lists what a policy may say of it.
func Rehearses() []Rehearse { return []Rehearse{RehearseAlways, RehearseChanged, RehearseNever} }

func (r Rehearse) validate() error {
	for _, known := range Rehearses() {
		if r == known || r == "" {
			return nil
		}
	}
	return fmt.Errorf("rehearse %q: want always, changed or never", r)
}
