// Package guard stands around the fake driver, in tests, and notes every call of a worker
// that breaks a promise: a tree that is killed though no image has replaced it, a second
// one beside the first, one that runs on while another is restored.
//
// It only looks: every call is carried out, and Complaints tells afterwards.
package guard
