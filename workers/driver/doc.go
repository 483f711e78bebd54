// Package driver is the port between the worker and what runs sessions on a
// host: a small interface, the values that cross it, and the kinds of error a
// worker can act on.
//
// Adapters live in packages beside it (criu, fake); drivertest holds the
// conformance suite that each of them passes. The package never decides
// whether a session may be suspended or resumed: the worker did, by
// compare-and-swap, before it called.
package driver
