// Package local runs a `diapause up` of its own, in a scratch directory, and
// speaks to it as a person would: by the command line of the built binary.
//
// The way through it: Build compiles the binary; Start brings the daemon up;
// Daemon.Run starts a session; a Session is suspended, resumed, asked and typed
// at; Daemon.Stop ends all of it and leaves nothing behind.
//
// It never reaches into the system by another way than its command line, and
// never touches a daemon that it didn't start.
package local
