// Package activityport lets the programs of a session publish that session's activity, and nothing
// else, from a private network.
//
// Listen opens a port there, in the network namespace of the thread that calls it. Serve passes each
// connection on until Close: to the host's NATS server, without credentials (ToServers), or to the worker's
// door (ToDoor, and package activitydoor). Relay reads what goes by (relay.go): a program may publish on the activity subjects of its
// session, and subscribe to answers. All else is refused with an error of the protocol, and the connection goes on.
//
// The package never passes credentials on in either direction, nor the addresses of other servers, and bounds
// how many connections there are and how much they send.
package activityport
