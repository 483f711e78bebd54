package matrix

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/objectstore/image"
)

const top = "../.."

// Every moment is reached from one place in the program: what is armed at it happens
// there and nowhere else.
func TestEachNameIsUsedOnce(t *testing.T) {
	values := constants(t)
	used := map[failpoint.Name]int{}
	for _, module := range []string{"workers", "services", "objectstore"} {
		eachFile(t, filepath.Join(top, module), func(f *ast.File) {
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					count(call, values, used)
				}
				return true
			})
		})
	}
	for _, n := range failpoint.Names() {
		if used[n] != 1 {
			t.Errorf("%s is reached from %d places, want one", n, used[n])
		}
	}
}

// constants gives the value of each name's constant.
func constants(t *testing.T) map[string]failpoint.Name {
	t.Helper()
	values := map[string]failpoint.Name{}
	eachFile(t, filepath.Join(top, "events/failpoint"), func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				values[spec.Names[0].Name] = failpoint.Name(strings.Trim(lit.Value, `"`))
			}
			return true
		})
	})
	if len(values) < len(failpoint.Names()) {
		t.Fatalf("found %d constants for %d names", len(values), len(failpoint.Names()))
	}
	return values
}

// count notes the moments that are arguments of a call: of At, or of package image's
// own step.
func count(call *ast.CallExpr, values map[string]failpoint.Name, used map[failpoint.Name]int) {
	steps := map[string]image.Step{"StepPacks": image.StepPacks, "StepKey": image.StepKey, "StepHeader": image.StepHeader}
	for _, arg := range call.Args {
		switch a := arg.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := a.X.(*ast.Ident); ok && pkg.Name == "failpoint" && values[a.Sel.Name] != "" {
				used[values[a.Sel.Name]]++
			}
		case *ast.Ident:
			if s, ok := steps[a.Name]; ok {
				used[failpoint.Name("image."+string(s))]++
			}
		}
	}
}

// eachFile calls fn for the files of the program below dir, tests left out.
func eachFile(t *testing.T, dir string, fn func(*ast.File)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil {
			fn(f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
