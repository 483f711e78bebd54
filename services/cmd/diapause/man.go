//go:build man

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra/doc"
)

// With the tag man the program is another one, which writes the manual's pages into the directory that it
// is given: what makes them isn't linked into diapause itself. services/packages/build.sh runs it.
func init() {
	for _, v := range os.Environ() { // flags have their defaults from these, which are of the machine that builds
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "DIAPAUSE_") {
			os.Unsetenv(name)
		}
	}
	root := newRoot()
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Diapause", Manual: "Diapause"}, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "diapause:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
