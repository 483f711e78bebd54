// Package natsconfig writes the configuration of a nats-server for a fleet of
// Diapause: accounts, a user for each part with the subjects that it needs and no
// others, nkeys for them, and TLS.
//
// The way through it: roles.go says who may do what, and is the place to look that
// up; config.go puts it into the server's configuration language; write.go writes it all
// into a directory, keeping the keys that are there. Certificates are package authority's.
//
// Publishers have an account of their own, EDGE, from which activity crosses into
// DIAPAUSE, where the streams are, as a service. Within one account, or over a stream
// import, a publisher that names a key of a bucket as the reply subject of its message
// would have JetStream overwrite that key with an acknowledgement. Every user hears
// answers in an inbox of its own alone, so that none reads those of another.
//
// The package never starts a server, never makes a stream, and never writes a seed
// into the configuration: that holds public keys.
package natsconfig
