// Package activityport lets the programs of a session publish that session's activity, and nothing
// else, from a private network.
//
// Listen opens a port there, in the network namespace of the thread that calls it. Serve passes each
// connection on to the host's NATS server, without credentials, until Close. Relay reads what goes
// by (relay.go): a program may publish on the activity subjects of its session, and subscribe to
// answers. All else is refused with an error of the protocol, and the connection goes on.
//
// It never passes credentials on in either direction, nor the addresses of other servers, and bounds
// how many connections there are and how much they send.
package activityport
