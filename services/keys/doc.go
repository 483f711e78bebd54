// Package keys says who reads the images of each tenant and who may write them,
// and keeps the images' keys wrapped to these.
//
// The way through it: change.go makes the changes of a record and set.go adds
// every tenant's record and the tenant's own up, both without any I/O; ring.go
// follows the records and answers for the worker and the API; keeper.go makes a
// change and then sees to it that the lineage keys in the store, and how sessions
// are to be started in their records, follow: at once, at every start, and every
// hour, so that nothing that was cut off stays behind.
//
// It never sees a secret but the identities that it is given, never writes
// anything of an image but its keys/, and never takes a wrap away before the key
// is wrapped to those who read it now.
package keys
