package preflight

import (
	"context"
	"slices"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/tree"
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

	// Opened, if given, remembers what the first look finds open, for the caller.
	Opened *tree.Opened

	// Lacks are the patches of ours that the CRIU at hand hasn't, by their names.
	Lacks []string
}

// Check finds what stops a capture of the processes now, and what a capture
// would lose or may stumble over for a moment (the warnings). Processes that end
// while it looks are left out. An error means that it couldn't look, because of
// ctx or of missing rights.
//
// The processes work on meanwhile: of a connection or a pipe made in that moment
// it may see one end and miss the other. So what looks like that is looked at
// again, with the processes started since, and counts only if it stays there: a
// program that loses its core while it accepts a connection has its end in no table
// of files for that long, and what was sent into that connection isn't accepted.
func Check(ctx context.Context, pids []int, o Options) ([]driver.Blocker, []schemas.Warning, error) {
	first, err := gather(ctx, pids, o)
	if err != nil {
		return nil, nil, err
	}
	if first.Watches, err = o.Opened.Watches(ctx, pids); err != nil {
		return nil, nil, err
	}
	findings, warnings := judgeAll(first)
	for _, wait := range lookAgain {
		if !slices.ContainsFunc(findings, func(f finding) bool { return f.pair != "" }) {
			break
		}
		time.Sleep(wait)
		o.Opened = nil
		next, err := gather(ctx, withDescendants(pids), o)
		if err != nil {
			return nil, nil, err
		}
		again, _ := judgeAll(next)
		findings = slices.DeleteFunc(findings, func(f finding) bool {
			return f.pair != "" && !slices.ContainsFunc(again, func(a finding) bool { return a.pair == f.pair })
		})
	}
	return blockers(findings), warnings, ctx.Err()
}

// lookAgain are the pauses before further looks at an end that seems to be outside.
var lookAgain = [...]time.Duration{0, 10 * time.Millisecond, 100 * time.Millisecond}
