// Package fleet shows what becomes of sessions when hosts go away: its tests run one
// `diapause up` and several `diapause worker`, each with a data directory of its own,
// on this machine and with short leases, and kill, stop and cut off workers. What
// ran, where and when is told by the sessions themselves, to a socket outside of them
// (witness_test.go). Clocks that jump are told in clock_amd64_test.go, by package jump.
//
// The package has tests alone. They need root and an installed CRIU; the slowest run with DIAPAUSE_LONG=1 alone.
package fleet
