// Package segment keeps revisions of the log of sessions outside of it: in objects of the
// store that are signed, encrypted, and chained by digests.
//
// The way through it: Write stores one segment, ReadHeader checks and reads what it says of
// itself in clear, Read gives its revisions, and Walk follows a chain from its end to its
// beginning. FORMAT.md has the bytes; a segment can be read with tail, age and zstd alone.
//
// The package never deletes a segment, never decides which revisions go into one, and
// knows nothing of what a revision means. A segment in the store isn't part of a chain
// before something outside of the store names it as the end.
package segment
