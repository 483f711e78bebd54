package main

import (
	"strings"
	"testing"

	"github.com/diapause/diapause/services/doctor"
)

func TestJudgeDesktop(t *testing.T) {
	for there, want := range map[string]struct {
		status doctor.Status
		text   string
	}{
		"Xvnc openbox dbus-daemon xterm": {doctor.OK, "finds what it needs"},
		"Xvnc dbus-daemon":               {doctor.Warn, "apt-get install openbox xterm"},
		"":                               {doctor.OK, "apt-get install tigervnc-standalone-server openbox dbus-daemon xterm"},
	} {
		got := judgeDesktop(func(program string) bool { return strings.Contains(there, program) && there != "" })
		if got.Status != want.status || !strings.Contains(got.Detail+got.Fix, want.text) {
			t.Errorf("with %q there: %+v, want %s with %q", there, got, want.status, want.text)
		}
	}
}
