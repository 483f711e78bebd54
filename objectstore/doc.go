// Package objectstore is the port through which Diapause keeps what must last:
// a flat space of named, immutable objects.
//
// The way through it: Store is the port, with its contract; subpackage dir keeps
// objects in a directory of the local machine; storetest is the conformance
// suite that each adapter passes; image is the snapshot format, built on the
// port; seal encrypts short secrets to age recipients.
//
// The port never changes an object: what is stored under a name stays as it is
// until it is deleted, and a second object of that name is refused. It knows
// nothing of encryption; what is put into it must already be fit for a disk that
// others may read.
package objectstore
