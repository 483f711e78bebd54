package api

import (
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
)

// notAdopted refuses what an adopted process tree can't do: it needs its own pids, and the files of its host.
func notAdopted(v statekv.Versioned, what string) error {
	if v.Driver != adoptspec.Driver {
		return nil
	}
	return schemas.FailedError(schemas.ReasonNoHost, "session %s can't be %s: it was adopted on host %s", v.Name(), what, v.Host).
		WithHint("it needs the pids and files there; a program that `diapause run` starts doesn't")
}

// adoptable refuses what can't be asked of a session that is to be made of a process tree.
func adoptable(r *schemas.RunRequest) error {
	switch {
	case r.Driver != adoptspec.Driver:
	case r.Existing != schemas.ExistingChosen:
		return schemas.UsageError("driver %s: `diapause adopt --pid` makes its sessions", r.Driver)
	case r.OnLoss == schemas.LossResume:
		return schemas.UsageError("on host loss resume: no other host can resume an adopted process")
	}
	return nil
}
