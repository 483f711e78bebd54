package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
	"github.com/diapause/diapause/workers/recovery"
	"github.com/diapause/diapause/workers/worker"
)

// ledgerOf opens the host's own memory of its sessions.
func ledgerOf(data *datadir.Dir, log *slog.Logger) (*recovery.Ledger, error) {
	l, damaged, err := recovery.Open(data.Join("ledger"), data.Host())
	if err != nil {
		return nil, err
	}
	for _, file := range damaged {
		log.Warn("the host's memory of a session was damaged, and is gone", "file", file)
	}
	return l, nil
}

// regain makes the records again if they went back, and says what it made.
func regain(ctx context.Context, w *worker.Worker, force bool, without []string) error {
	gone := make([]schemas.HostID, len(without))
	for i, h := range without {
		gone[i] = schemas.HostID(h)
	}
	got, err := w.Regain(ctx, force, gone, func(hosts []schemas.HostID) {
		fmt.Printf("recovering: waiting for what these hosts know: %v; start `diapause` there, or give up on one with --recover-without HOST here\n", hosts)
	})
	if len(got.Signs) > 0 {
		fmt.Printf("recovering: the records of sessions have gone back (was NATS restored from a backup?): %s\n", got.Signs[0])
		if more := len(got.Signs) - 1; more > 0 {
			fmt.Printf("recovering: and %d more signs; the log has them\n", more)
		}
	}
	if err != nil {
		return fmt.Errorf("nothing is decided, resumed or removed before the records are recovered; sessions run on: %w", err)
	}
	for _, n := range got.Sessions {
		fmt.Printf("recovered: session %s: %s\n", n, got.Reasons[n.String()])
	}
	if len(got.Signs) > 0 || force {
		fmt.Printf("recovered: %s, each in the log as a transition \"recovered\"\n", count(len(got.Sessions), "session"))
	}
	return nil
}

// wentBack says what to do when the records went back while they were served.
func wentBack(err error) error {
	if errors.Is(err, worker.ErrWentBack) {
		return fmt.Errorf("stopped, sessions run on: start `diapause up` again, it recovers their records: %w", err)
	}
	return err
}
