// Package confine says what a session may do: which capabilities its processes can have, and
// which system calls the kernel refuses them.
//
// Of reads a session's spec and gives its limits.Limits. By default these are Docker's capabilities
// without MKNOD, with NET_RAW only where the session's network is its own, and Docker's seccomp
// profile, taken from its own source and compiled here without libseccomp (profile.go, compile.go).
// What that profile lets through and a session must not have is denied besides it (denied).
//
// The package only computes. It never changes the process that calls it: the stage that starts
// a command loads the limits, and the shim writes them into the images that CRIU restores.
package confine
