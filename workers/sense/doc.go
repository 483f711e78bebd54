// Package sense observes the sessions that run on one host.
//
// A Sensor looks at each of them at a fixed interval and publishes as leases what says that
// it is in use: work on the CPU, a program in the foreground, a command that runs beside it,
// connections from outside. It answers what it saw last, and has the pid of a session that
// has just come to run before the first look, and whether a session has executed anything since its
// last snapshot (age).
//
// The package never decides that a session is idle.
package sense
