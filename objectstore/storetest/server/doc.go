// Package server starts real S3 servers for tests and benchmarks: MinIO and
// versitygw, each on a free port of loopback with a directory and a bucket of its
// own.
//
// install.sh builds them. A server that isn't there fails with what to run; it
// is never replaced by a fake.
package server
