// Package storetest is the conformance suite of the object store port: what
// every adapter must do, on any storage.
//
// The way through it: an adapter's test calls Run with a function that opens a
// store; each case works under a prefix of its own, so that a store that can't be
// emptied between cases (a real bucket) will do.
//
// It never looks behind the port; what is special to an adapter, such as file
// modes, is for that adapter's own tests.
package storetest
