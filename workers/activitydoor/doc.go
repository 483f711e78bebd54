// Package activitydoor has a worker publish what comes to the activity ports of its sessions, where the NATS server wants
// credentials, which no session has.
//
// A Door speaks the protocol to the relays of package activityport, which have let pass what is a session's own, on
// a socket in the host's data directory. What it publishes over the worker's connection it holds to the bounds of the
// server of `diapause up` (package strangers); it gives no answers, as that server. Without a connection to NATS it
// ends its own, and keeps nothing.
package activitydoor
