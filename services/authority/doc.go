// Package authority makes the certificate of a NATS server, and the authority that signs it:
// for the server inside `diapause up`, and for one of a fleet (`diapause nats-config`).
//
// Certify is all of it. The authority is made once and kept; the server's certificate is made
// at every call. Clients trust the authority's certificate because it lies beside their file
// of credentials (package natsconn).
//
// It never gives a client a certificate: clients prove who they are by their nkeys.
package authority
