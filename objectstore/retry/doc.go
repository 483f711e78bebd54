// Package retry makes a store of one that is now and then away: what fails for a
// reason that may pass is tried again, with growing pauses, for a bounded time.
//
// The way through it: Wrap; store.go tries again whole operations, reader.go goes
// on with reading where it broke off.
//
// It never tries again what the store has decided (not found, exists, full,
// denied), never what the caller's own reader failed at, and never reports as
// refused what an earlier try of the same call has written.
package retry
