package shim

import (
	"fmt"
	"os"
	"strings"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/network"
)

// A session with CAP_NET_ADMIN can change the network that is its own. A resume makes that network as
// it was at first, so each suspend warns of what was changed since.

// view keeps how the network is before the session can change it.
func (w *online) view(s Setup) {
	if s.networkAdmin() {
		w.first, _ = w.network.View() // without it all is told as a change
	}
}

// networkChanges warns of what a resume won't bring back of the session's network.
func (d *dumper) networkChanges() []schemas.Warning {
	if !d.networkAdmin || !d.emptyNetwork && d.online == nil {
		return nil
	}
	changes, err := d.networkSince()
	w := schemas.Warning{Code: schemas.WarnNotKept, Subject: "network"}
	switch {
	case err != nil:
		w.Text = fmt.Sprintf("what the session changed of its network isn't kept, and isn't known: %v", err)
	case len(changes) == 0:
		return nil
	default:
		w.Text = "a resume makes the session's network as it was at first, without these changes: " + firstOf(changes)
	}
	return []schemas.Warning{w}
}

func (d *dumper) networkSince() ([]string, error) {
	if d.online != nil {
		now, err := d.online.network.View()
		return now.Since(d.online.first), err
	}
	first, err := network.LoopbackView()
	if err != nil {
		return nil, err
	}
	space, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", d.tree.init))
	if err != nil {
		return nil, fmt.Errorf("find the session's network: %w", err)
	}
	defer space.Close()
	now, err := network.ViewOf(space)
	return now.Since(first), err
}

// firstOf lists some of what was changed, and how much more there is.
func firstOf(changes []string) string {
	const enough = 6
	if more := len(changes) - enough; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(changes[:enough], ", "), more)
	}
	return strings.Join(changes, ", ")
}
