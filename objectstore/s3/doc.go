// Package s3 keeps objects in a bucket of an S3 store: Amazon's, MinIO,
// versitygw, or another that speaks the protocol.
//
// The way through it: url.go reads where the bucket is, open.go connects and
// finds out what the server can do (probe.go), store.go is the port's adapter,
// body.go sees to it that an upload has the size that was announced before its
// last byte is sent, errors.go says in the port's words what the server said.
//
// An object goes up in one PUT, however large (S3 takes up to 5 GiB), streamed,
// with a checksum that the server compares (a CRC-32C in front of what can be read
// twice, else the signature of each chunk): nothing is held in memory, nothing
// unfinished stays behind, and the one request can carry a condition. Where the
// server honours If-None-Match, which is tried out with racing writers each time
// the store is opened, of several writers of one name exactly one succeeds. Where it
// doesn't, a name that is taken is refused, but two writers of a free name at the
// same moment may both believe that they wrote it, which is harmless for callers with names of
// their own. Delete removes every version of an object in a bucket that keeps
// versions, since what was deleted must not come back.
//
// It never retries (package retry does), never creates a bucket, and never lists or
// touches objects outside its prefix.
package s3
