package preflight

import (
	"context"

	"github.com/diapause/diapause/workers/driver"
)

// Options say what belongs to the session besides its processes.
type Options struct {
	// Init is the session's first process, as this process sees it: the root of
	// the tree that is dumped. Its namespaces are the session's.
	Init int

	// External reports whether the other end of something is held outside on
	// purpose, and is passed back at a restore. It gets what /proc says of the
	// open file in the session: "/dev/pts/3", "pipe:[123]", "socket:[123]".
	// Without it nothing is.
	External func(link string) bool

	// GhostLimit is how many bytes a file may have that is open and has no name
	// any more, CRIU's --ghost-limit. Without it there is no limit.
	GhostLimit int64
}

// Check finds what stops a capture of the processes now, and what a capture
// would lose or may stumble over for a moment (the warnings). Processes that end
// while it looks are left out. An error means that it couldn't look, because of
// ctx or of missing rights.
func Check(ctx context.Context, pids []int, o Options) ([]driver.Blocker, []string, error) {
	facts, err := gather(ctx, pids, o)
	if err != nil {
		return nil, nil, err
	}
	blockers, warnings := Judge(facts)
	return blockers, warnings, nil
}
