// Package rpc talks to one criu process by its RPC protocol: dump and restore,
// with the notifications between their steps.
//
// Start runs "criu swrk" on one end of a socket, where its caller has it start; Dump or Restore sends the one request and calls back for each notification,
// with the file that criu may have attached; the callback's error makes criu give up.
// Options holds the fields that Diapause uses, encode.go writes them in protobuf's
// wire format: the messages are few and small, so no generated code is needed.
//
// criu's RPC can't stream images (cr-service.c opens the images' directory
// without the streamer, and an option "stream" in a configuration file makes
// it crash). StartStreamed (line.go) runs a criu for that by its command line, with
// the same Options and notifications.
//
// It never kills a criu that dumps: that can take the session with it.
package rpc
