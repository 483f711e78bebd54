package programs

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/diapause/diapause/e2e/compat/local"
)

//go:embed journals.py
var journalsPython string

// Journals is a program that holds SQLite databases open in every journal mode and
// writes to them after each resume: in the modes delete and truncate SQLite
// refuses to if the file's inode number has changed.
func Journals() Program {
	return Program{
		Name:  "SQLite in four journal modes",
		State: "databases in modes delete, truncate, persist and wal open all the time, written by two processes after each resume, integrity_check",
		Needs: []string{python, "sqlite3"}, Version: []string{"sqlite3", "--version"},
		Command: []string{python, "-c", journalsPython},
		Prepare: func(ctx context.Context, s *local.Session) error {
			if _, err := s.Until(ctx, patience, "test -S /tmp/state.sock"); err != nil {
				return err
			}
			return journalsWrite(ctx, s, 0)
		},
		Check: func(ctx context.Context, s *local.Session, r Round) error { return journalsWrite(ctx, s, r.N) },
	}
}

func journalsWrite(ctx context.Context, s *local.Session, n int) error {
	rows := (n + 1) * 100
	want := fmt.Sprintf(`[%d, "ok", ["5000", "%d", "ok"], ""]`, rows, rows)
	told, err := s.Exec(ctx, "", python, "-c", askState)
	if err != nil {
		return err
	}
	return same("what each database says", fmt.Sprintf(`{"delete": %[1]s, "truncate": %[1]s, "persist": %[1]s, "wal": %[1]s}`, want), told)
}
