// Command cmd writes the bill of materials of diapause, and the licences of what is linked.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/e2e/supply"
)

func main() {
	version := flag.String("version", "", "version of the program")
	out := flag.String("out", "bin", "directory for diapause.cdx.json and LICENCES.txt")
	flag.Parse()
	if err := run(context.Background(), *version, *out); err != nil {
		fmt.Fprintln(os.Stderr, "supply:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, out string) error {
	root, err := local.Root()
	if err != nil {
		return err
	}
	modules, err := supply.Modules(ctx, root)
	if err != nil {
		return err
	}
	linked, err := supply.Read(modules)
	if err != nil {
		return err
	}
	vendored, err := supply.ReadVendored(root)
	if err != nil {
		return err
	}
	var bill, licences bytes.Buffer
	if err := supply.WriteBill(&bill, version, linked, vendored); err != nil {
		return err
	}
	if err := supply.WriteLicences(&licences, linked, vendored); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "diapause.cdx.json"), bill.Bytes(), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "LICENCES.txt"), licences.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Printf("%d modules and %d npm packages: %s and %s\n", len(linked), len(vendored), filepath.Join(out, "diapause.cdx.json"), filepath.Join(out, "LICENCES.txt"))
	return nil
}
