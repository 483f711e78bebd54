// Package run builds the parts of Diapause from plain configs and runs them in this
// process: Up is everything, Worker one more host, Scheduler one more scheduler.
//
// The way through it: config.go holds the configs, which nothing else changes. up.go
// opens the data directory, the keys, the store and NATS in that order, link.go is the
// connection and what the parts share on it, host.go makes what runs sessions and
// drivers.go its drivers, control.go what decides and answers. scheduler.go does with a
// connection alone. health.go shows what the parts count and how they are, supervised.go tells systemd.
//
// It is the one package beside services/cmd/diapause that imports workers. It reads no
// flag and, but for the failpoints of a test and what systemd sets, no environment. It prints only to the
// writer that it is given.
package run
