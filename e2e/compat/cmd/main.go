// Command cmd is the whole compatibility run: it suspends and resumes every
// program ten times and writes the table of what was found.
//
// With -only it runs some of them. With -parts FILE it keeps the rows there, and writes each of the
// two tables as soon as FILE has all of its rows:
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
	desktops := flag.String("desktops", "", "file for the table of desktops (default e2e/compat/DESKTOPS.md)")
	only := flag.String("only", "", "run only programs whose name contains this; the table then goes to standard output")
	parts := flag.String("parts", "", "file that keeps the rows of several runs of one commit; the table is made of all of them")
	rounds := flag.Int("rounds", compat.Rounds, "how often each program is suspended and resumed")
	control := flag.Bool("control", false, "suspend nothing, to see whether a program fails without it as well; no table")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, options{*out, *desktops, *only, *parts, compat.Run{Rounds: *rounds, Control: *control}})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	out, desktops, only, parts string
	how                        compat.Run
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
	d, err := local.StartWith(ctx, binary, dir, nil, local.WithREST...)
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
	return errors.Join(o.write(ctx, rows, load), verdict(rows))
}

// join adds rows to those of earlier runs, and writes each of the tables for which none is missing.
func (o options) join(ctx context.Context, parts *compat.Parts, rows []compat.Row, load string) error {
	parts.Add(rows, load)
	if err := parts.Save(o.parts); err != nil {
		return err
	}
	o.only = ""
	var errs []error
	for _, table := range [][]programs.Program{programs.All(), programs.Desktops()} {
		all, missing := parts.Rows(table)
		if len(missing) > 0 {
			fmt.Printf("%s lacks %s: their table comes with them\n", o.parts, strings.Join(missing, ", "))
			continue
		}
		errs = append(errs, o.write(ctx, all, parts.Load()))
	}
	return errors.Join(errs...)
}

// write writes the tables of the rows: that of desktops is beside the other one.
func (o options) write(ctx context.Context, rows []compat.Row, load string) error {
	all, desktops := compat.Apart(rows)
	var err error
	if len(all) > 0 {
		err = write(compat.Write(ctx, all, o.how.Rounds, load), o.out, "RESULTS.md", o.only)
	}
	if len(desktops) > 0 {
		err = errors.Join(err, write(compat.WriteDesktops(ctx, desktops, o.how.Rounds, load), o.desktops, "DESKTOPS.md", o.only))
	}
	return err
}

func selected(only string) []programs.Program {
	var some []programs.Program
	for _, p := range compat.Everything() {
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

func write(table []byte, out, name, only string) error {
	if only != "" {
		_, err := os.Stdout.Write(table)
		return err
	}
	if out == "" {
		root, err := local.Root()
		if err != nil {
			return err
		}
		out = filepath.Join(root, "e2e", "compat", name)
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
