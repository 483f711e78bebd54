package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/diapause/diapause/e2e/compat/local"
)

// SQLite is a database shell in the middle of a transaction, which it commits in
// the last round.
func SQLite() Program {
	q := &sqlite{}
	return Program{
		Name: "sqlite3", State: "open transaction: uncommitted rows seen by it alone, file lock held against others, COMMIT in the end",
		Needs: []string{"sqlite3"}, Version: []string{"sqlite3", "--version"},
		Command: []string{"/bin/sh", "-c", "mkfifo /tmp/in; exec 3<>/tmp/in; exec sqlite3 /tmp/t.db </tmp/in >/tmp/out 2>&1"},
		Prepare: q.prepare, Check: q.check,
	}
}

type sqlite struct{ asked int }

func (q *sqlite) prepare(ctx context.Context, s *local.Session) error {
	if _, err := s.Until(ctx, patience, "test -p /tmp/in"); err != nil {
		return err
	}
	_, err := q.ask(ctx, s, "CREATE TABLE t(n); INSERT INTO t VALUES (0); BEGIN IMMEDIATE; INSERT INTO t VALUES (1); SELECT 1;")
	return err
}

func (q *sqlite) check(ctx context.Context, s *local.Session, r Round) error {
	inside, err := q.ask(ctx, s, "SELECT count(*) FROM t;")
	if err != nil {
		return err
	}
	if err := same("the rows within the transaction", fmt.Sprint(r.N+1), inside); err != nil {
		return err
	}
	outside, err := s.Shell(ctx, "sqlite3 -readonly /tmp/t.db 'SELECT count(*) FROM t'")
	if err != nil {
		return err
	}
	if err := same("the rows that others see", "1", strings.TrimSpace(outside)); err != nil {
		return err
	}
	if said, err := s.Shell(ctx, "sqlite3 /tmp/t.db 'INSERT INTO t VALUES (99)' 2>&1"); err == nil || !strings.Contains(said, "locked") {
		return fmt.Errorf("another writer isn't locked out: %q", said)
	}
	if _, err := q.ask(ctx, s, fmt.Sprintf("INSERT INTO t VALUES (%d); SELECT 1;", r.N+1)); err != nil || !r.Last {
		return err
	}
	return q.commit(ctx, s, r.N+1)
}

func (q *sqlite) commit(ctx context.Context, s *local.Session, last int) error {
	if _, err := q.ask(ctx, s, "COMMIT; SELECT 1;"); err != nil {
		return err
	}
	rows, err := s.Shell(ctx, "sqlite3 /tmp/t.db 'INSERT INTO t VALUES (99); SELECT group_concat(n) FROM t; PRAGMA integrity_check'")
	if err != nil {
		return errors.Join(errors.New("the lock is held after the commit"), err)
	}
	var want strings.Builder
	for n := range last + 1 {
		fmt.Fprintf(&want, "%d,", n)
	}
	return same("the committed rows", want.String()+"99\nok\n", rows)
}

// ask gives SQL to the shell in the session and reads the last line that it
// prints.
func (q *sqlite) ask(ctx context.Context, s *local.Session, sql string) (string, error) {
	q.asked++
	mark := fmt.Sprintf("end-of-%d", q.asked)
	if _, err := s.Exec(ctx, sql+"\n.print "+mark+"\n", "/bin/sh", "-c", "cat >/tmp/in"); err != nil {
		return "", err
	}
	out, err := s.Until(ctx, patience, fmt.Sprintf("grep -x -B 1 %[1]s /tmp/out | head -n 1 | grep -v %[1]s", mark))
	if err != nil {
		said, _ := s.Shell(ctx, "tail -n 3 /tmp/out")
		return "", fmt.Errorf("sqlite3 doesn't answer %q: %w: %s", sql, err, said)
	}
	return strings.TrimSpace(out), nil
}
