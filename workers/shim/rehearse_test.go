package shim

import (
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/inventory"
)

// TestRehearsalWarnsOnce has a rehearsal find what the look before the freeze warned of, and what
// it didn't.
func TestRehearsalWarnsOnce(t *testing.T) {
	t.Parallel()
	datagrams := inventory.Difference{
		Object: inventory.Object{PID: 6, Thing: "fd 3"}, Program: "dig", Aspect: inventory.AspectDatagrams, Before: "5", After: "0", Class: inventory.Warn,
	}
	of := func(change func(d *inventory.Difference)) inventory.Difference {
		d := datagrams
		change(&d)
		return d
	}
	said := []schemas.Warning{
		{Code: schemas.WarnNotKept, Subject: "dig (pid 6), fd 3", Text: "the datagrams that wait in a UDP socket are lost"},
		{Code: schemas.WarnPending, Subject: "dig (pid 6), fd 4", Text: "it holds a datagram back"},
	}
	peer := schemas.Warning{Code: schemas.WarnNotKept, Subject: "SO_PEERCRED", Text: "it isn't kept"}
	for name, c := range map[string]struct {
		found inventory.Difference
		said  []schemas.Warning
		want  string
	}{
		"same":               {found: datagrams, said: said},
		"nothing said":       {datagrams, nil, "pid 6, fd 3, datagrams waiting"},
		"events":             {found: of(func(d *inventory.Difference) { d.Aspect = inventory.AspectEvents }), said: said},
		"another descriptor": {of(func(d *inventory.Difference) { d.Thing = "fd 33" }), said, "pid 6, fd 33, datagrams waiting"},
		"another process":    {of(func(d *inventory.Difference) { d.PID = 66 }), said, "pid 66, fd 3, datagrams waiting"},
		"another warning":    {of(func(d *inventory.Difference) { d.Thing = "fd 4" }), said, "pid 6, fd 4, datagrams waiting"},
		"another aspect":     {of(func(d *inventory.Difference) { d.Aspect = "room in it" }), said, "pid 6, fd 3, room in it"},
		"peer":               {found: of(func(d *inventory.Difference) { d.Aspect = inventory.AspectPeer }), said: []schemas.Warning{peer}},
		"peer not said":      {of(func(d *inventory.Difference) { d.Aspect = inventory.AspectPeer }), said, "pid 6, fd 3, peer's credentials"},
	} {
		warnings, err := (&rehearsals{}).judge([]inventory.Difference{c.found}, c.said)
		var got []string
		for _, w := range warnings {
			got = append(got, w.Subject)
		}
		if err != nil || strings.Join(got, "; ") != c.want {
			t.Errorf("%s: it warns of %q, %v, want %q", name, got, err, c.want)
		}
	}
	refused := of(func(d *inventory.Difference) { d.Class = inventory.Refuse })
	if _, err := (&rehearsals{}).judge([]inventory.Difference{refused}, said); err == nil {
		t.Error("what is refused isn't an error once it was warned of")
	}
}
