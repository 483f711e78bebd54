// Package fake is a driver whose sessions are a counter in memory, for the
// tests of everything above the driver port.
//
// It can be told to block, fail, or lose its answer at any call (Script), and it
// outlives the worker that uses it, as real sessions outlive theirs. It passes
// the same conformance suite as the real drivers.
package fake
