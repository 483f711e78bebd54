// Command cmd is the whole compatibility run: it suspends and resumes every
// program ten times and writes the table of what was found.
//
// With -only it runs some of them. With -parts FILE it keeps the rows there, and writes the
// table as soon as FILE has those of all programs:
//
//	cmd -parts rows.json -only Firefox; cmd -parts rows.json -only redis; …
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/diapause/diapause/e2e/compat"
	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/compat/programs"
)

func main() {
	out := flag.String("out", "", "file for the table (default e2e/compat/RESULTS.md)")
	only := flag.String("only", "", "run only programs whose name contains this; the table then goes to standard output")
	parts := flag.String("parts", "", "file that keeps the rows of several runs of one commit; the table is made of all of them")
	rounds := flag.Int("rounds", compat.Rounds, "how often each program is suspended and resumed")
	control := flag.Bool("control", false, "suspend nothing, to see whether a program fails without it as well; no table")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, options{*out, *only, *parts, compat.Run{Rounds: *rounds, Control: *control}})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	out, only, parts string
	how              compat.Run
}

func run(ctx context.Context, o options) (err error) {
	load := local.Load()
	var parts *compat.Parts
	if o.parts != "" {
		if parts, err = compat.ReadParts(o.parts, local.Commit(ctx), o.how.Rounds); err != nil {
			return err
		}
	}
	some := selected(o.only)
	if len(some) == 0 {
		return fmt.Errorf("no program is called %q", o.only)
	}
	dir, err := os.MkdirTemp("", "diapause-compat-")
	if err != nil {
		return fmt.Errorf("make a scratch directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := local.Binary(dir)
	if err != nil {
		return err
	}
	d, err := local.Start(ctx, binary, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Stop(context.WithoutCancel(ctx))) }()
	rows := compat.RunAll(ctx, d, some, o.how, func(r compat.Row) { tell(r, o.how.Rounds) })
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	if o.how.Control {
		return verdict(rows)
	}
	if parts != nil {
		return errors.Join(o.join(ctx, parts, rows, load), verdict(rows))
	}
	return errors.Join(write(compat.Write(ctx, rows, o.how.Rounds, load), o.out, o.only), verdict(rows))
}

// join adds rows to those of earlier runs, and writes the table if none is missing.
func (o options) join(ctx context.Context, parts *compat.Parts, rows []compat.Row, load string) error {
	parts.Add(rows, load)
	if err := parts.Save(o.parts); err != nil {
		return err
	}
	all, missing := parts.Rows(programs.All())
	if len(missing) > 0 {
		fmt.Printf("%s lacks %s: the table comes with them\n", o.parts, strings.Join(missing, ", "))
		return nil
	}
	return write(compat.Write(ctx, all, o.how.Rounds, parts.Load()), o.out, "")
}

func selected(only string) []programs.Program {
	var some []programs.Program
	for _, p := range programs.All() {
		if strings.Contains(p.Name, only) {
			some = append(some, p)
		}
	}
	return some
}

func tell(r compat.Row, rounds int) {
	if r.Err != nil {
		fmt.Printf("%-34s FAILED after %d rounds: %v\n", r.Program.Name, len(r.Cycles), r.Err)
		return
	}
	fmt.Printf("%-34s %d of %d\n", r.Program.Name, len(r.Cycles), rounds)
}

func write(table []byte, out, only string) error {
	if only != "" {
		_, err := os.Stdout.Write(table)
		return err
	}
	if out == "" {
		root, err := local.Root()
		if err != nil {
			return err
		}
		out = filepath.Join(root, "e2e", "compat", "RESULTS.md")
	}
	if err := os.WriteFile(out, table, 0o644); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	fmt.Println("written:", out)
	return nil
}

func verdict(rows []compat.Row) error {
	failed := 0
	for _, r := range rows {
		if r.Err != nil {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d programs failed", failed, len(rows))
	}
	return nil
}
