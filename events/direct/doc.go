// Package direct connects a client and a host without the NATS server between: over TLS 1.3, to an
// address that the host advertises, with a grant that the host gave through NATS.
//
// The way through it: a host listens with Listen, and gives out grants with Server.Offer
// (grants.go decides which are good). The offer, which goes to a client that may reach the session
// through NATS, has the address, the hash of the host's certificate and a secret. The client calls
// Dial, which takes no other certificate, and sends the secret (redeem.go has the format). Server.Serve
// hands on what comes with a good one (listen.go). Both ends have a tunnel.Conn then.
//
// Ways remembers which hosts can't be reached so (way.go).
//
// A grant is for one connection to one port of one session at one epoch, and soon expires. The
// certificate is made when the host starts, is in memory alone, and is trusted through its hash: there is no
// authority and no name to check.
//
// To anyone else the listener says nothing: it closes the connection. It keeps a bounded number of
// connections that have shown no grant, each for a short time, and closes the oldest for a new one.
//
// The package never reaches a session, and never decides who may: who hands out an offer has.
package direct
