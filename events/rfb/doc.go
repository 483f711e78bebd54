// Package rfb reads the protocol of VNC (RFC 6143) as far as a session's desktop needs that, in versions 3.7 and 3.8 without a password.
//
// A Filter (filter.go) reads what a client says: it passes on what that client may say, and reports when a person types or moves
// the pointer. Picture (picture.go) is a small client, which asks a server for one whole picture.
//
// The package opens no connection, and keeps nothing of what it reads but a message that isn't whole.
package rfb
