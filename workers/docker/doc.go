// Package docker is the driver for sessions that are Docker containers. A session is suspended
// as the changes of its file system, the contents of its volumes and its configuration, and
// comes back from these here or on another host. Its memory is lost: a resumed container runs
// its command from the start, on the files that it had.
//
// Driver implements the port and hands each call to one of its parts, which know the engine
// (engine.go), the notes and as few of the others as they can:
//
//   - starter makes a container from a spec (plan.go, create.go) or adopts an existing one, and
//     starts it; restorer makes one from an image (describe.go is what that holds) and fills its
//     layer and volumes (mounts.go) before starter starts it.
//   - capturer stores what it can while the container runs, has pauser pause it once, and adds
//     the description, the layer and the volumes to the image.
//   - stopper removes the container, or holds it stopped if it was adopted or ended by itself,
//     until the session starts it again (restart.go) or is removed. remover removes what was
//     made for a session and undoes a restore (replace.go, package backup).
//   - states tells how a session is, from its note and the engine (notrunning.go for containers
//     that don't run); watcher reports ends and observer measures.
//   - talker serves connections: output, commands, terminals and copies.
//   - claims keep drivers that share an engine from adopting the same container, and adoption
//     finds containers whose labels ask for a session.
//
// notes.go is what a host remembers of a session after a crash: its epoch, its container and
// how far a step had come. A note is written before the step that it describes.
//
// The driver uses the engine's API, and reads and writes layers and volumes directly where the
// engine keeps them in directories of this host; storage.go finds these, with containerd's help
// for the containerd image store. With other storage drivers the whole file system goes through
// the API (export.go).
//
// It never changes a container, volume, network or image that isn't the session's: what it
// makes has labels, by which Recover finds what a crash left. It never removes a volume that
// existed before the session. What a restore replaces is verified before, and kept until the
// new container has started: after a failure all of it is as it was.
package docker
