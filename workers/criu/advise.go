package criu

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
)

// Advise says if sessions of the spec's user can't be captured on this host: criu has to read
// the limits of their processes.
func (d *Driver) Advise(spec schemas.Spec) []schemas.Warning {
	return advise(spec.User, readsLimits())
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
