// Package dockertest gives tests a Docker engine of their own: its own data, containers
// and socket, beside an engine of the machine's own, which is never touched.
//
// Shared lends one of at most three engines, which are started when tests ask for them;
// Main stops them at the end. Busybox makes an image from the machine's static busybox; Registry serves one.
// It needs root, dockerd (Debian's docker.io) and busybox-static, and says so.
//
// DIAPAUSE_TEST_ENGINE has all tests of a run use another engine than the machine's, which
// install.sh puts beside it: current (the graph driver of today's Docker), containerd (its
// containerd image store) or newest (install.sh --newest builds it). NewOf asks for one by name.
package dockertest
