// Package dockertest gives tests a Docker engine of their own: its own data, containers
// and socket, beside whatever engine the machine has, which is never touched.
//
// Main starts it once for a test binary, when the first test asks for it, and stops it
// at the end. Busybox makes an image from the machine's static busybox; Image makes one of a
// directory. It needs root, dockerd (Debian's docker.io) and busybox-static, and says so.
package dockertest
