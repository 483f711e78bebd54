// Package containers holds tests of sessions that are Docker containers, through the
// real program and a Docker engine of the tests' own: killed between any two steps
// (killed_test.go), real servers with data in volumes under load (servers_test.go),
// adopted ones (adopted_test.go), and what it takes beside `docker commit`, `docker save`
// and `tar` (DIAPAUSE_BENCH=1, cost_test.go). The slowest run with DIAPAUSE_LONG=1 alone. The
// package has tests alone.
package containers
