// Package natstraps pins down what Diapause relies on in NATS, and what it works
// around, on real servers: each test says what would break if a new version of
// NATS behaved otherwise. A trap that has gone is no failure of Diapause, but a
// reason to look at what was built around it.
//
// That strangers can't steer acknowledgements and headers is tested where the
// embedded server's users are made (services/embedded).
package natstraps
