package main

import (
	"context"
	"os/exec"
	"strings"

	"github.com/diapause/diapause/services/desktop"
	"github.com/diapause/diapause/services/doctor"
)

// checkDesktop looks for the programs that desktops are made of. A host without any of them isn't to have desktops.
func checkDesktop() doctor.Check {
	return doctor.Check{
		Name: "desktop", What: "the programs of desktops are there",
		Run: func(context.Context) doctor.Result {
			return judgeDesktop(func(program string) bool { _, err := exec.LookPath(program); return err == nil })
		},
	}
}

func judgeDesktop(there func(program string) bool) doctor.Result {
	var missing []string
	for _, p := range desktop.Programs() {
		if !there(p.Name) {
			missing = append(missing, p.Package)
		}
	}
	switch install := "apt-get install " + strings.Join(missing, " "); {
	case len(missing) == 0:
		return doctor.Result{Status: doctor.OK, Detail: "`diapause desktop` finds what it needs"}
	case there("Xvnc"):
		return doctor.Result{Status: doctor.Warn, Detail: "desktops lack " + strings.Join(missing, ", "), Fix: install}
	default:
		return doctor.Result{Status: doctor.OK, Detail: "no desktops with the files of this host: " + install + " is what they need"}
	}
}
