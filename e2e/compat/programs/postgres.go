package programs

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/diapause/diapause/e2e/compat/local"
)

var (
	//go:embed postgres.sh
	postgresStart string
	//go:embed postgres.c.txt
	postgresUser string
)

// Postgres is a PostgreSQL server and pgbench, which has four connections and
// commits all the time.
func Postgres() Program {
	p := &postgres{}
	return Program{
		Name:  "postgres under pgbench",
		State: "pgbench's four connections commit on and none fails, balances and history have one sum, pg_amcheck with every heap tuple indexed, data checksums",
		Needs: []string{"pgbench", "psql", "gcc"}, Version: []string{"pgbench", "--version"},
		Flags: []string{"--cwd", "/tmp"}, Command: []string{"/bin/sh", "-c", postgresStart, "sh", postgresUser},
		Prepare: p.prepare, Check: p.check,
	}
}

type postgres struct{ committed int64 }

// The two lines that ask: a consistent look at all sums, and the checks of files.
const (
	postgresEnv = `bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1); export PGHOST=127.0.0.1 PGUSER=bench PGDATABASE=postgres; `
	postgresSum = postgresEnv + `$bin/psql -XAtq <<EOF
SET default_transaction_isolation = 'repeatable read';
SELECT count(*), sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts)
	AND sum(delta) = (SELECT sum(bbalance) FROM pgbench_branches)
	AND sum(delta) = (SELECT sum(tbalance) FROM pgbench_tellers) FROM pgbench_history
EOF`
	postgresAmcheck = postgresEnv + `$bin/pg_amcheck --heapallindexed --rootdescend 2>&1`
)

func (p *postgres) prepare(ctx context.Context, s *local.Session) error {
	if _, err := s.Until(ctx, patience, "test -s /tmp/bench.out"); err != nil {
		return p.explain(ctx, s, err)
	}
	return p.goesOn(ctx, s)
}

func (p *postgres) check(ctx context.Context, s *local.Session, _ Round) error {
	if err := p.goesOn(ctx, s); err != nil {
		return err
	}
	if said, err := s.Shell(ctx, postgresAmcheck); err != nil || strings.TrimSpace(said) != "" {
		return p.explain(ctx, s, errors.Join(fmt.Errorf("pg_amcheck says %q", said), err))
	}
	return nil
}

// goesOn waits until there are more transactions than before, by the same
// pgbench, whose sums agree.
func (p *postgres) goesOn(ctx context.Context, s *local.Session) error {
	if _, err := s.Shell(ctx, "kill -0 $(cat /tmp/bench.pid)"); err != nil {
		return p.explain(ctx, s, fmt.Errorf("pgbench ended: %w", err))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		out, err := s.Shell(ctx, postgresSum)
		if err != nil {
			return p.explain(ctx, s, err)
		}
		count, agree, _ := strings.Cut(strings.TrimSpace(out), "|")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || (n > 0 && agree != "t") {
			return fmt.Errorf("the sums of the balances differ: %q", out)
		}
		if n >= p.committed+50 {
			p.committed = n
			break
		}
	}
	if out, err := s.Shell(ctx, "! grep -iE 'error|aborted|fatal' /tmp/bench.out"); err != nil {
		return p.explain(ctx, s, fmt.Errorf("pgbench had errors: %q", out))
	}
	return nil
}

// explain adds what the server and pgbench have printed.
func (p *postgres) explain(ctx context.Context, s *local.Session, err error) error {
	said, _ := s.Shell(context.WithoutCancel(ctx), "tail -n 5 /tmp/start.out /tmp/server.out /tmp/bench.out")
	return fmt.Errorf("%w: %s", err, said)
}
