// Package stream is the JetStream topology: which streams there are, what each
// keeps and for how long, and how they are read without missing anything.
//
// Ensure makes or checks them. Consume reads one in order, through consumers of its own
// (pull.go), and says when something may come late. Publisher puts activity, commands and events on
// them; Activity and Since read activity back. Names carry a prefix, so that
// they fit an existing account.
//
// The package never decides what a message means (package session does) and
// never writes session state (package statekv does).
package stream
