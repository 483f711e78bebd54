// Command vuln runs govulncheck over modules with a copy of Go's database of vulnerabilities: today's where it
// can be reached, else an older one, whose date it says.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/e2e/supply"
)

// published is where the Go project gives its database.
const published = "https://vuln.go.dev/vulndb.zip"

func main() {
	tool := flag.String("tool", "", "package of govulncheck, with its version")
	from := flag.String("from", published, "where the archive of the database is")
	dir := flag.String("db", "", "directory of a copy to use: nothing is fetched")
	digest := flag.String("digest", "", "that the copy must have, as another run has printed it; any if empty")
	flag.Parse()
	db, err := find(context.Background(), *from, *dir)
	if err == nil {
		err = db.Is(*digest)
	}
	if err == nil {
		err = run(context.Background(), db, *tool, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

// run looks through modules, each a directory, and ends at the first that has a vulnerability:
// govulncheck knows no workspaces, so it looks through one module at a time.
func run(ctx context.Context, db supply.Database, tool string, modules []string) error {
	fmt.Printf("vulnerabilities known on %s, a copy of %s", db.Modified.Format(time.DateOnly), db.Digest)
	if db.Offline != nil {
		fmt.Printf(", an older copy: %v", db.Offline)
	}
	fmt.Println()
	at := url.URL{Scheme: "file", Path: db.Dir}
	for _, module := range modules {
		fmt.Println("module", module)
		cmd := exec.CommandContext(ctx, "go", "run", tool, "-db", at.String(), "./...")
		cmd.Dir, cmd.Stdout, cmd.Stderr = module, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("govulncheck of module %s: %w", module, err)
		}
	}
	return nil
}

func find(ctx context.Context, from, dir string) (supply.Database, error) {
	if dir != "" {
		return supply.Open(dir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return supply.Database{}, err
	}
	return supply.Fetch(ctx, from, filepath.Join(cache, "diapause", "vulndb"))
}
