// Package statekvtest helps to test what reads and swaps session records.
//
// Test is the suite that every keeper of session records passes: what a swap may come to,
// what a reader sees and in which order. Fake keeps records in memory and passes it, as
// statekv.Store does on a real JetStream server: a test that uses the one holds for the other.
// A test that needs to lose answers, or to cut readers off, wraps a Fake.
//
// The package never decides a transition; session.Apply does, for the Fake as well.
package statekvtest
