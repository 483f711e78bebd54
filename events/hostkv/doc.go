// Package hostkv keeps what operators ordered about hosts in a NATS KV bucket, and changes
// that by compare-and-swap only: a host's own record is written by that host alone.
//
// There is one record a host. Every revision says who ordered it and when. Outcomes of a
// change are those of package cas. Store reads and writes; Cache follows the bucket, for who
// asks at each placement whether a host is cordoned.
//
// The package never decides what an order leads to, and touches no session.
package hostkv
