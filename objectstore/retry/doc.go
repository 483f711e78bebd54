// Package retry wraps a store that is unreachable at times. Operations that fail for
// a reason that may pass are retried with growing pauses, for a bounded time.
//
// The way through it: Wrap; store.go retries whole operations, reader.go continues
// a read where it broke off.
//
// It never tries again what the store has decided (not found, exists, full,
// denied), never what the caller's own reader failed at, and never reports as
// refused what an earlier try of the same call has written.
package retry
