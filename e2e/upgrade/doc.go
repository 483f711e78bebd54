// Package upgrade holds the tests of what becomes of a data directory, and of the sessions
// that run and sleep in it, when a newer program takes it over.
//
// install.sh builds the older program from the history of the repository. The tests make
// sessions with it: process trees and a container, running, suspended, checkpointed, forked,
// ended and failed, under policies, a quota and a second reader of images. Then the older
// daemon ends, the newer one starts on the same data directory, and what it makes of each
// session is compared with what the older one said: views, history, output, process ids.
// Sessions that run keep the shims of the older program, and are suspended by the newer.
//
// A fleet of the older program (an up, a scheduler, and two workers, each in a network of its own, on a NATS
// server beside them) is upgraded one part at a time, under load (mixed_test.go).
//
// The tests never upgrade by other means than a user has: stop one program, start the other.
package upgrade
