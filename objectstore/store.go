package objectstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// Errors that every adapter reports, wrapped with the object's name.
var (
	// ErrNotFound: no object of that name.
	ErrNotFound = errors.New("object not found")
	// ErrExists: the name is taken; its object is as it was.
	ErrExists = errors.New("object already exists")
	// ErrFull: the store has no room, or its quota is used up. Nothing was
	// stored; the same Put may succeed once there is room.
	ErrFull = errors.New("object store is full")
	// ErrDenied: the store doesn't know the credentials, or they may not do this.
	// It lasts until one of them is changed.
	ErrDenied = errors.New("object store denies access")
	// ErrSize: the reader gave more or fewer bytes than Put was told. Nothing
	// was stored.
	ErrSize = errors.New("content does not have the announced size")
	// ErrRange: the offset or length is negative.
	ErrRange = errors.New("invalid range")
	// ErrName: the name is not valid (see CheckName).
	ErrName = errors.New("invalid object name")
)

// Store keeps objects. All methods may be called concurrently, from any number
// of processes that share the same storage.
//
// An object is visible to Get and List whole or not at all, and once Put has
// returned nil it survives a crash of the machine that stores it. Of several
// writers that put the same name at the same time exactly one succeeds and the
// others get ErrExists.
//
// An error other than the ones named leaves the outcome of Put and Delete
// unknown: the object may or may not be there. Callers that need to know choose
// names of their own, and try again with a new one.
type Store interface {
	// Put stores the size bytes that r gives under a name that must be free.
	// It reads r to its end. If r fails, or ctx ends first, nothing is stored and
	// r's error is returned, wrapped.
	// Errors: ErrExists, ErrFull, ErrSize, ErrName.
	Put(ctx context.Context, name string, r io.Reader, size int64) error

	// Get reads length bytes of the object from offset on; length -1 reads to its
	// end. A range that reaches beyond the end is cut there, down to nothing. The
	// reader gives the bytes of one object even if it is deleted meanwhile, or an
	// error. The caller closes the reader; ctx governs it until then.
	// Errors: ErrNotFound, ErrName, ErrRange.
	Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)

	// List calls fn for each object whose name starts with prefix, in no
	// particular order, and returns fn's first error. The prefix need not end at a
	// slash; the empty one lists everything. Objects stored or deleted during the
	// call may be left out or listed; all others are listed exactly once.
	List(ctx context.Context, prefix string, fn func(Info) error) error

	// Delete removes an object for good: once it has returned nil the object does
	// not come back after a crash. Deleting what is not there is no error.
	Delete(ctx context.Context, name string) error
}

// Info describes one stored object.
type Info struct {
	Name    string
	Size    int64     // bytes
	ModTime time.Time // when it was stored, by the store's clock
}
