// Package docker is the driver for sessions that are Docker containers: suspended as
// what changed in their file system, the contents of their volumes and all of their
// configuration, and brought back from these, here or on another host. Memory is lost:
// a resumed container starts its command anew, on the files that it had.
//
// The way through it: Start makes a container from a spec (run.go) or takes over one
// that is there. Capture (capture.go) stores what can be stored while the container
// runs, pauses it once, and adds its configuration (meta.go), its layer and its volumes
// (files.go) to the image. Restore (restore.go) makes a container anew from the image, fills its
// layer and volumes, and starts it last. Stop removes what the session made, or holds a
// container that was taken over stopped, as it does one of our own that ended by itself, until
// it is started again (again.go) or the session is removed. still.go is about containers that
// don't run, copy.go and attach.go about what dial.go carries. note.go is what the driver
// remembers of each session over crashes: its epoch, its container and how far a step had come.
// By claim.go the drivers that use one engine know each other's containers.
//
// It talks to the engine through its API, and reads and writes layers and volumes
// directly where the engine keeps them in directories of this host. Where it doesn't
// (a storage driver other than overlay2), the whole file system goes through the API (whole.go).
// With the containerd image store it asks containerd where a layer is (snapshotter.go).
//
// It never touches a container, a volume, a network or an image that isn't the
// session's: what it makes has labels, by which Recover finds what a crash has left. It never
// removes a volume that was there before the session. What a restore replaces (aside.go,
// swap.go) is verified before and kept beside until the new container has begun: whatever
// fails until then, it is all as it was.
package docker
