// Package nameserver answers a session's questions for names with what the host's name servers say.
//
// Listen opens port 53 of an address, in the network namespace of the thread that calls it; Serve
// passes each query on and its answer back, until Close. The servers are asked for at each query, so that
// a session has those of the host on which it is now. Resolver makes a resolv.conf that leads there.
//
// It never reads a query but for its number, never keeps an answer, and never has more than a bounded
// number of queries under way: a session that asks for more loses them.
package nameserver
