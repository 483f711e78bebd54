// Package natscluster runs real NATS servers in this process, for tests of what
// happens to them: one, or a cluster whose nodes can be stopped, started again,
// and cut off from each other and from their clients.
//
// Start makes the servers; every route between two nodes and every connection of
// a client goes through a Link, which can be stalled (nothing arrives, no one is
// told) or cut (closed, and refused). A Door is one client's way to all nodes.
//
// The servers sync every write and know nothing of Diapause. The package never
// waits for a guess of time: what it waits for, it asks the servers.
package natscluster
