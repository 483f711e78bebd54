// Package shim is the one small process that each session has on its host. It
// holds the session's terminal and output, starts it, enters it, captures and
// restores it with criu, and knows how it ended; it outlives the worker, which
// can be killed and started again at any time. If a shim itself is killed, the kernel ends its
// session (main.go): without it nothing would freeze that one at the end of its host's lease.
//
// A worker's driver starts its own binary with Main and sends a Setup over the
// control socket it handed down (setup.go, main.go). The shim mounts what the
// session needs in a mount namespace of its own (place.go, layer.go; cover.go hides files of the host), starts or restores the
// tree (start.go, restore.go; boot.go is what both share), asks the worker for the
// word to go and only then lets the first instruction run. From then on it serves
// two sockets in the run directory: orders of a worker (orders.go) and connections
// of clients (serve.go), whose protocol is package attach.
//
// What the main command's terminal shows is recorded (record.go): it is kept in memory for seconds, sealed to a key of which
// the shim has the public half alone, and spilled for a worker to store (spill.go), whether there is one or not.
//
// session (session.go) supervises: it carries out orders and notes the end. Its
// parts have one job each: stateFile is the state on disk and the fence of epochs,
// guard freezes the session when its host's lease runs out, processes are its tree,
// dumper captures and thaws it (capture.go, freeze.go), clients serve the terminal
// and what is typed into it (serve.go, typing.go, typists.go), shown is what the terminal
// shows, for clients that want that first (shown.go, watch.go), runner starts more
// commands (exec.go), gate keeps input and new commands out while it is captured.
// way.go decides whether an image is made in memory or streamed: then the shim is
// criu's streamer (stream.go), keeps the small images and passes the pipes of
// the large ones to the worker.
//
// Before a suspend kills the tree, rehearsals (rehearse.go) restore its image in a quarantine
// (quarantine.go), from images without pages (hollowed.go), and compare what was restored with
// the original (package inventory). The quarantine is made while criu dumps. Its criu is held before the
// first instruction of the copy and holds both ends of its own socket, so that nothing of the
// copy runs, also if the shim is killed.
//
// It never decides when a session is suspended or resumed, never lets a tree run
// that its worker gave no word for, and never kills criu. An order with an epoch
// below the highest it has seen is refused. No file, output or environment of
// the session is written to a disk but the session's own upper layer, and what is recorded, encrypted.
package shim
