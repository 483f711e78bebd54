// Package certificate gives an HTTP server its certificate: from files that others renew, or one that it makes for
// itself (`--tls self`).
//
// Open reads the certificate, Source.Config is what a listener takes. Files are looked at when a client connects, and
// read again when they have changed; one that is made here is made again some weeks before it ends. So a renewal needs no
// restart, cuts no connection, and costs nothing while no one connects.
//
// A certificate that is made here signs nothing but itself: who steals its key can pass for this server alone. Clients trust
// it by a file that lies beside it.
//
// The package never serves a certificate that it can't read whole, and never gives up the one it has for such a one.
package certificate
