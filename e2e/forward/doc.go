// Package forward holds tests of `diapause forward` through the real program: a server in a
// session of each network is reached, a suspended one is resumed by a connection, an open
// connection is a lease, and one that ends early ends with an error (forward_test.go). The server
// in the session is the test program itself (server_test.go). The package has tests alone.
package forward
