package fleet

import (
	"testing"

	"github.com/diapause/diapause/schemas"
)

// A host with room is chosen rather than the preferred one without; where none has room
// the preferred one is, and room is made there.
func TestChooseRoom(t *testing.T) {
	host := func(id schemas.HostID, sessions, slots int) Host {
		return Host{Host: schemas.Host{Host: id, Sessions: sessions, Slots: slots, Fingerprints: []schemas.Fingerprint{{Driver: "criu"}}}}
	}
	for name, c := range map[string]struct {
		hosts []Host
		want  schemas.HostID
	}{
		"the preferred one has room":  {[]Host{host("a", 2, 3), host("b", 0, 3)}, "a"},
		"the preferred one is full":   {[]Host{host("a", 3, 3), host("b", 9, 0)}, "b"},
		"all are full":                {[]Host{host("b", 1, 1), host("a", 5, 3)}, "a"},
		"no slots are no limit":       {[]Host{host("a", 500, 0), host("b", 0, 3)}, "a"},
		"the others by what they run": {[]Host{host("a", 3, 3), host("b", 9, 0), host("c", 8, 10)}, "c"},
	} {
		if got, _, err := Choose(c.hosts, Want{Need: schemas.Fingerprint{Driver: "criu"}, Prefer: "a"}); err != nil || got != c.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}
