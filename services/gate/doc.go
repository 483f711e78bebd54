// Package gate takes the connections of this machine for a server in this process: it listens
// in the server's place, so that no user can keep others from being heard.
//
// The way through it: gate.go accepts and carries bytes both ways; peer.go asks the kernel
// which user has the other end of a loopback connection; inside.go tells what runs in sessions apart from
// root, who passes it on; hello.go reads the server's first
// line. A Gate bounds the connections of each user, and how fast each connection and each user
// may send. What is above the rate waits in the sender: nothing is dropped here. While a caller
// says so (Refuse), it takes no connection at all.
//
// filter.go has the caller change messages (Change), and says who sends them: it is the only part that
// reads what clients send. The package knows no credentials.
package gate
