// Package ingresskv keeps the TCP listeners of `diapause ingress add` in a bucket of NATS: which part listens where, for
// which port of which session.
//
// The way through it: Store.Add and Remove change a listener by compare-and-swap, List gives all, Watch follows those of one
// part. A listener that was removed leaves a record that says so, on which the next one at the address is written.
//
// The package never listens (package services/ingress does), and doesn't know whether a part could.
package ingresskv
