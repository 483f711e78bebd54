// Package drivertest holds the conformance suite of driver.Driver: what the port
// promises, tried on a driver. A driver's own test describes a Host and calls
// Run; what is special to a driver it tests beside that.
//
// Image is an image in memory, for tests that need a Sink and a Source without
// a store. Forked is a session's command for those that measure. The package is imported by tests
// and benchmarks alone.
package drivertest
