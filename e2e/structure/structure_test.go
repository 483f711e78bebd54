package structure

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	top       = "../.."
	ourPrefix = "github.com/diapause/diapause/"

	// maxLines is what a file may have; 400 is the aim.
	maxLines = 500
	// maxFunction is what a function of the program may have, in lines.
	maxFunction = 75
)

// mayImport says which modules of ours the packages of a module may import.
var mayImport = map[string][]string{
	"schemas":     {},
	"events":      {"schemas"},
	"objectstore": {"schemas"},
	"workers":     {"schemas", "events", "objectstore"},
	"services":    {"schemas", "events", "objectstore"},
	"e2e":         {"schemas", "events", "objectstore", "workers", "services"},
}

// together are the only packages that put workers and services together.
var together = []string{"services/run", "services/cmd/diapause"}

// source is one parsed Go file.
type source struct {
	path   string // from the top of the repository
	module string
	test   bool
	lines  int
	file   *ast.File
	fset   *token.FileSet
}

func (s source) pkg() string { return filepath.ToSlash(filepath.Dir(s.path)) }

func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed reads all of them once, for all tests.
var parsed = sync.OnceValues(func() ([]source, error) {
	var all []source
	for module := range mayImport {
		err := filepath.WalkDir(filepath.Join(top, module), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(path, ".go") {
				return nil
			}
			s, err := parse(path, module)
			all = append(all, s)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(all) < 50 {
		return nil, fmt.Errorf("found only %d files below %s", len(all), top)
	}
	return all, nil
})

func parse(path, module string) (source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	rel, err := filepath.Rel(top, path)
	if err != nil {
		return source{}, err
	}
	return parseText(filepath.ToSlash(rel), module, string(text))
}

// parseText parses a file's text, as that of a file at path.
func parseText(path, module, text string) (source, error) {
	s := source{path: path, module: module, fset: token.NewFileSet()}
	s.test = strings.HasSuffix(path, "_test.go")
	s.lines = strings.Count(text, "\n")
	var err error
	s.file, err = parser.ParseFile(s.fset, path, text, parser.ParseComments)
	return s, err
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			checkImport(t, s, path)
		}
	}
}

func checkImport(t *testing.T, s source, path string) {
	t.Helper()
	rest, ours := strings.CutPrefix(path, ourPrefix)
	if !ours {
		if first, _, _ := strings.Cut(path, "/"); s.module == "schemas" && !s.test && strings.Contains(first, ".") {
			t.Errorf("%s imports %s: schemas takes the standard library alone", s.path, path)
		}
		return
	}
	module, _, _ := strings.Cut(rest, "/")
	if module == s.module || slices.Contains(mayImport[s.module], module) {
		return
	}
	if slices.Contains(together, s.pkg()) && module == "workers" {
		return
	}
	t.Errorf("%s imports %s: %s may import %v of our modules", s.path, path, s.module, mayImport[s.module])
}

// The adapters know the ports, never the other way round, and no adapter knows another.
func TestLayers(t *testing.T) {
	never := map[string][]string{
		"events/session": {"events/", "github.com/nats-io/"},
		"events/attach":  {"events/", "github.com/"},
		"objectstore":    {"objectstore/"},
		"workers/worker": {"objectstore/dir"},
	}
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			path := strings.TrimPrefix(strings.Trim(spec.Path.Value, `"`), ourPrefix)
			for folder, prefixes := range never {
				if s.test || s.pkg() != folder && !(folders[folder] && within(s.pkg(), folder)) {
					continue
				}
				for _, prefix := range prefixes {
					if strings.HasPrefix(path, prefix) && !within(path, folder) {
						t.Errorf("%s imports %s", s.path, path)
					}
				}
			}
		}
	}
}

// folders are those whose rules hold for the packages below them, too.
var folders = map[string]bool{"events/attach": true, "workers/worker": true}

// workersMay says which folders of workers may import which: the ports and what looks at a
// machine below, the shim above them, the drivers above that. The worker knows the ports,
// and no driver; drivers is where each driver is registered.
var workersMay = map[string][]string{
	"driver":       {},
	"cgroup":       {},
	"confine":      {},
	"tree":         {},
	"layer":        {"sparse"},
	"treecopy":     {},
	"hide":         {},
	"shells":       {},
	"recovery":     {},
	"thread":       {},
	"sparse":       {},
	"preflight":    {"driver", "thread", "tree"},
	"inventory":    {"tree"},
	"shim":         {"activityport", "cgroup", "confine", "driver", "hide", "inventory", "layer", "nameserver", "network", "preflight", "publish", "reach", "shells", "thread", "tree", "treecopy"},
	"criu":         {"cgroup", "confine", "driver", "hide", "layer", "network", "publish", "rootfs", "shim", "tree"},
	"rootfs":       {"driver", "sparse"},
	"adopted":      {"cgroup", "criu", "driver", "layer", "preflight", "shim", "tree"},
	"docker":       {"driver", "layer", "reach", "tree", "treecopy"},
	"fake":         {"driver"},
	"canary":       {"driver"},
	"connect":      {"driver"},
	"sense":        {"driver"},
	"snapshots":    {"driver"},
	"rebuild":      {"recovery", "snapshots"},
	"recordings":   {"asciicast", "driver", "snapshots"},
	"search":       {"recordings"},
	"worker":       {"connect", "driver", "rebuild", "recordings", "recovery", "search", "sense", "snapshots", "turns"},
	"drivers":      {"adopted", "criu", "docker", "driver"},
	"turns":        {},
	"network":      {"thread"},
	"reach":        {"thread"},
	"publish":      {"driver"},
	"activityport": {},
	"activitydoor": {"activityport"},
	"asciicast":    {},
	"nameserver":   {},
}

func TestLayersOfWorkers(t *testing.T) {
	for _, s := range sources(t) {
		folder, ours := strings.CutPrefix(s.pkg(), "workers/")
		if !ours || s.test {
			continue
		}
		folder, _, _ = strings.Cut(folder, "/")
		may, known := workersMay[folder]
		if !known {
			t.Errorf("%s: workersMay doesn't say what the folder may import", s.path)
		}
		for _, spec := range s.file.Imports {
			other, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), ourPrefix+"workers/")
			other, _, _ = strings.Cut(other, "/")
			if ours && other != folder && !slices.Contains(may, other) {
				t.Errorf("%s imports workers/%s: workers/%s may import %v", s.path, other, folder, may)
			}
		}
	}
}

// within reports whether a package is a folder's, or below it.
func within(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

func TestPackagesAreDocumented(t *testing.T) {
	documented, where := map[string]bool{}, map[string]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		where[s.pkg()] = s.path
		if s.file.Doc != nil && len(strings.Fields(s.file.Doc.Text())) >= 12 {
			documented[s.pkg()] = true
		}
	}
	for pkg := range where {
		if !documented[pkg] {
			t.Errorf("package %s doesn't say what it is for, in a few sentences", pkg)
		}
	}
}

func TestNames(t *testing.T) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "manager", "model", "models", "misc"}
	for _, s := range sources(t) {
		for _, name := range []string{s.file.Name.Name, strings.TrimSuffix(filepath.Base(s.path), ".go")} {
			if slices.Contains(empty, strings.TrimSuffix(name, "_test")) {
				t.Errorf("%s: %q says nothing", s.path, name)
			}
		}
		for name := range s.file.Scope.Objects {
			if strings.HasSuffix(name, "Manager") || strings.HasSuffix(name, "Helper") || strings.HasSuffix(name, "Utils") {
				t.Errorf("%s: the name %q says nothing", s.path, name)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > maxLines {
			t.Errorf("%s has %d lines, more than %d", s.path, s.lines, maxLines)
		}
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line; n > maxFunction {
				t.Errorf("%s: %s has %d lines, more than %d", s.path, f.Name.Name, n, maxFunction)
			}
		}
	}
}

// No one skips a test, or leaves one that can't fail.
func TestNothingIsSkipped(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if ok && s.test && (sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf" || sel.Sel.Name == "SkipNow") {
				t.Errorf("%s skips a test: what is missing has to be installed", s.fset.Position(sel.Pos()))
			}
			return true
		})
		for _, group := range s.file.Comments {
			if text := group.Text(); strings.Contains(text, "TODO") || strings.Contains(text, "FIXME") {
				t.Errorf("%s: something is left to do", s.fset.Position(group.Pos()))
			}
		}
	}
}
