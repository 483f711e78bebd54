// Package queue says in which order sessions come to hosts that were made while no host had room
// for them.
//
// Of lists those that wait, the oldest first. Sessions that need the same of a host are of one Kind,
// and are served in the order in which they came. Decide says which one is to be tried next: once one
// of a kind found no host, the later ones of that kind aren't tried in the same round. Rest says
// when the next round begins.
//
// The package decides and does nothing else: package api places sessions, by compare-and-swap on
// their records, so that two that decide at once are harmless.
package queue
