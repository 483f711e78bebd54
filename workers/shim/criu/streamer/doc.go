// Package streamer is the other end of criu's option --stream: images as pipes
// instead of files.
//
// The protocol is criu's own (criu/img-streamer.c, images/img-streamer.proto,
// criu 3.15 and later). criu connects to a socket in its images' directory,
// streamer-capture.sock for a dump and streamer-serve.sock for a restore. For each
// image it opens it sends a request: its length (uint32, the machine's byte
// order) and a protobuf message with the image's name in field 1. In a restore it
// then waits for a reply of the same form, whose field 1 says whether there is
// such an image. Last it sends one end of a new pipe by SCM_RIGHTS, with one byte:
// the one to read from in a dump, the one to write to in a restore. The end of an
// image is the end of the pipe; the end of the connection means that no more images
// will be opened. There is no way to report an error but to break a pipe.
//
// Listen makes the socket, Accept waits for criu, Run hands each pipe over as it
// comes. All processes of a restore share the one connection.
//
// The package never reads or writes an image: the pipes are its caller's.
package streamer
