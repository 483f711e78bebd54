// Package crash holds tests that end the daemon with SIGKILL in the middle of
// what it does, start it again, and look whether anything is lost, done twice or
// left behind: at the failpoints between two steps (failpoints_test.go), after each
// transition, and at any moment. These are drawn from a seed, which a failure prints;
// DIAPAUSE_SEED sets it. DIAPAUSE_LONG=1 runs many more rounds, and gives an error between any two
// steps as well (errors_test.go). The package has tests alone.
package crash
