// Package natsconn opens a NATS connection the way every part and every client
// verb of Diapause does: by URL and a file with credentials, which may hold an
// nkey seed (as `diapause up` makes them) or a JWT with its key (a .creds file of
// an operator's NATS).
//
// The way through it: Connect in natsconn.go; credentials.go reads the file and
// tells the two forms apart.
//
// It never prints, logs or keeps a key, and never falls back to connecting
// without credentials when a file was given.
package natsconn
