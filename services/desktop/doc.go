// Package desktop has a session be a desktop: an X server that is a VNC server too, a window manager, a bus and
// applications, all in one process tree.
//
// Furnish (furnish.go) completes how the session is run; it decides and starts nothing. What then runs in the session
// is start.sh. The applications that --app names are in apps.go: with the flags that they need to be suspended.
//
// The VNC server asks for no password: it listens on the loopback device of the session's own network, where the session
// itself and what its host leads there reach it. So a session with the host's network can't be a desktop.
package desktop
