// Package matrix holds the crash matrix: every moment between two steps of the
// protocol (package failpoint lists them), in everything that can be asked of a
// session, with everything that can go wrong there. After each case the session is
// there once or its image is, it counts on without a gap or a repeat, the log folds
// to its records, and when it is removed nothing is left of it.
//
// The way through it: lane_test.go is one machine, with a real NATS server and a
// real directory of images, whose processes can be ended at any moment;
// mortal_test.go is what such a process does its work through, so that nothing it
// still does after its end has an effect; guard_test.go stands around the fake
// driver and notes every call that breaks a promise. verbs_test.go lists what is
// asked and the moments on its way, faults_test.go what goes wrong, and
// matrix_test.go runs all of one with all of the other. What goes wrong on one machine
// alone has no other that could take over: paused_test.go stops workers for longer than
// their host's lease, on two machines (pair_test.go, hosts_test.go).
//
// DIAPAUSE_LONG=1 runs all of it, else it is a sixth, without the pauses; DIAPAUSE_SEED has
// the same one again, and DIAPAUSE_MATRIX="worker.reap.heard" the cases alone whose name has
// that, of the pauses too.
//
// The moments of the criu driver, and the others once more with real processes, are
// in package crash. The package has tests alone.
package matrix
