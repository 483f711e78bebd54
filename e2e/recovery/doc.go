// Package recovery shows that sessions come back without Diapause: its tests do
// what objectstore/image/RECOVERY.md says, with the script that stands there, a
// copy of the store, an identity that the host never had, and no diapause
// running.
package recovery
