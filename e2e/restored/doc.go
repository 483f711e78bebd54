// Package restored holds the tests of what becomes of sessions when NATS comes back
// from a backup, or empty: the real program, real CRIU, and the store of the embedded
// server put back or deleted between two runs.
package restored
