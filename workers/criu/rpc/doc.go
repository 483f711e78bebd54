// Package rpc talks to one criu process by its RPC protocol: dump and restore,
// with the notifications between their steps.
//
// The way through it: Start runs "criu swrk" on one end of a socket, in the
// cgroups of its caller's choice; Dump or Restore sends the one request and
// calls back for each notification, with the file that criu may have attached;
// the callback's error makes criu give up. Options holds the fields that
// Diapause uses, encode.go writes them in protobuf's wire format: the messages
// are few and small, so no generated code is needed.
//
// It never kills a criu that dumps: that can take the session with it.
package rpc
