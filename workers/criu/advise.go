package criu

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/network"
)

// Advise says if sessions of the spec's user can't be captured on this host, for criu has to read
// the limits of their processes, and if the host drops what a private network sends.
func (d *Driver) Advise(spec schemas.Spec) []schemas.Warning {
	all := advise(spec.User, readsLimits())
	if spec.Network == "private" && !slices.Equal(spec.AllowOut, []string{"none"}) {
		all = append(all, adviseNetwork(network.Blocked())...)
	}
	return all
}

// adviseNetwork: a host whose rules can't be listed makes no private network, and says so then.
func adviseNetwork(b *network.Block, err error) []schemas.Warning {
	if err != nil || b == nil {
		return nil
	}
	return []schemas.Warning{{
		Code: schemas.WarnNetwork, Subject: b.Chain,
		Text: fmt.Sprintf("the session reaches nothing outside: the host's chain %s drops what it forwards; to accept it: %s", b.Chain, b.Fix),
	}}
}

func advise(user string, readsLimits bool) []schemas.Warning {
	name, _, _ := strings.Cut(user, ":")
	if readsLimits || name == "" || name == "0" || name == "root" {
		return nil
	}
	return []schemas.Warning{{
		Code: schemas.WarnUser, Subject: user,
		Text: fmt.Sprintf("this host can't capture sessions of user %s: the worker has no CAP_SYS_RESOURCE; it won't be suspended", user),
	}}
}

// readsLimits reports whether this process may read the limits of other users' processes.
func readsLimits() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	return unix.Capget(&header, &have[0]) == nil && have[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}
