package desktop

import (
	_ "embed"
	"maps"
	"slices"
)

// app is an application with what it needs to be captured: no user namespaces, no graphics card.
type app struct {
	env     []string
	command []string // more arguments are those of the application
}

//go:embed firefox.sh
var firefox string

//go:embed chromium.sh
var chromium string

// apps are those that have a name.
var apps = map[string]app{
	"firefox": {command: []string{"sh", "-c", firefox, "firefox"}, env: []string{
		"MOZ_DISABLE_CONTENT_SANDBOX=1", "MOZ_DISABLE_SOCKET_PROCESS_SANDBOX=1", "MOZ_DISABLE_RDD_SANDBOX=1", "MOZ_DISABLE_GMP_SANDBOX=1",
		"MOZ_DISABLE_UTILITY_SANDBOX=1", "MOZ_ASSUME_USER_NS=0", "MOZ_DISABLE_FORKSERVER=1", "MOZ_CRASHREPORTER_DISABLE=1",
	}},
	"chromium": {command: []string{"sh", "-c", chromium, "chromium"}},
	"xterm":    {command: []string{"xterm"}},
}

// Known reports whether an application has a name here.
func Known(name string) bool {
	_, known := apps[name]
	return known
}

// Apps are the names of the applications that are known.
func Apps() []string { return slices.Sorted(maps.Keys(apps)) }

// Program is one that a desktop runs, with its package in Debian.
type Program struct{ Name, Package string }

// Programs are those of every desktop, and the app xterm.
func Programs() []Program {
	return []Program{{"Xvnc", "tigervnc-standalone-server"}, {"openbox", "openbox"}, {"dbus-daemon", "dbus-daemon"}, {"xterm", "xterm"}}
}
