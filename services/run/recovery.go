package run

import (
	"context"
	"fmt"
	"io"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/worker"
)

// regain makes the records again if they went back, and says what it made.
func (c Recovery) regain(ctx context.Context, w *worker.Worker, out io.Writer) error {
	got, err := w.Regain(ctx, c.Force, c.Without, func(hosts []schemas.HostID) {
		fmt.Fprintf(out, "recovering: waiting for what these hosts know: %v; start `diapause` there, or give up on one with --recover-without HOST here\n", hosts)
	})
	if len(got.Signs) > 0 {
		fmt.Fprintf(out, "recovering: the records of sessions have gone back (was NATS restored from a backup?): %s\n", got.Signs[0])
		if more := len(got.Signs) - 1; more > 0 {
			fmt.Fprintf(out, "recovering: and %d more signs; the log has them\n", more)
		}
	}
	if err != nil {
		return schemas.WithHint(fmt.Errorf("recover the records of sessions: %w", err), "nothing is decided, resumed or removed before that; sessions run on")
	}
	for _, n := range got.Sessions {
		fmt.Fprintf(out, "recovered: session %s: %s\n", n, got.Reasons[n.String()])
	}
	if len(got.Signs) > 0 || c.Force {
		fmt.Fprintf(out, "recovered: %s, each in the log as a transition \"recovered\"\n", sessions(len(got.Sessions)))
	}
	return nil
}

func sessions(n int) string {
	if n == 1 {
		return "1 session"
	}
	return fmt.Sprintf("%d sessions", n)
}
