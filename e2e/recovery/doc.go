// Package recovery shows that sessions come back without Diapause: its tests do
// what objectstore/image/RECOVERY.md says, with the script and the steps that stand there, a
// copy of the store, an identity that the host never had, and no diapause
// running. Containers come back on a Docker engine from which their image was removed.
package recovery
