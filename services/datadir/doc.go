// Package datadir is the data directory of `diapause up`: who may use it, what
// version its format has, which keys belong to it, and how clients on the same
// machine find the server that runs on it.
//
// The way through it: dir.go opens the directory, version.go says whether it is
// one of ours, lock.go makes sure that one process uses it at a time, init.go
// makes what the first start has to make, keys.go reads the keys, locate.go is
// for clients.
//
// What lies in it:
//
//	version       the format's version; written last by the first start
//	lock          locked while a process uses the directory; says which
//	host          the host's id: its name and a random part
//	up.json       where the running server is; only while it runs
//	keys/         identity.txt (age, as age-keygen writes it) and
//	              signing.key (Ed25519, PKCS #8 in PEM), log.txt (the age identity
//	              of the log's segments): back these up
//	creds/ nats/ objects/ pages/   belong to other packages
//
// It never replaces a key that is gone, never changes a directory that it
// refuses, and never looks into another's files.
package datadir
