package compat

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/compat/programs"
)

// TestPrograms suspends and resumes a few of the programs, all of them with
// DIAPAUSE_LONG=1.
func TestPrograms(t *testing.T) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir := t.TempDir()
	binary, err := local.Binary(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := local.StartWith(ctx, binary, dir, nil, local.WithREST...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	all, rounds := programs.Quick(), 2
	if os.Getenv("DIAPAUSE_LONG") != "" {
		all, rounds = Everything(), Rounds
	}
	RunAll(ctx, d, all, Run{Rounds: rounds}, func(r Row) {
		if r.Err != nil {
			t.Errorf("%s after %d rounds: %v", r.Program.Name, len(r.Cycles), r.Err)
			return
		}
		t.Log(r.line())
	})
	if t.Failed() {
		t.Logf("the daemon printed:\n%s", d.Output())
	}
}
