package structure

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// maxMethods is what a type of the program may have, counting those of the types that it
// embeds: a struct that is split in form alone has as many as before.
const maxMethods = 40

// typeSet has what is declared of the types of the program, by package and name.
type typeSet struct {
	methods map[string]map[string]bool // their own, by type
	embeds  map[string][]string        // types of ours that a struct embeds
}

func typesOf(all []source) typeSet {
	set := typeSet{methods: map[string]map[string]bool{}, embeds: map[string][]string{}}
	for _, s := range all {
		if !s.test {
			set.add(s)
		}
	}
	return set
}

func (set typeSet) add(s source) {
	packages := importedAs(s.file)
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				continue
			}
			name := qualified(d.Recv.List[0].Type, s.pkg(), nil)
			if set.methods[name] == nil {
				set.methods[name] = map[string]bool{}
			}
			set.methods[name][d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					name := s.pkg() + "." + spec.Name.Name
					set.embeds[name] = append(set.embeds[name], embedded(spec.Type, s.pkg(), packages)...)
				}
			}
		}
	}
}

// importedAs gives the folders of the packages of ours that a file imports, by the names
// that it gives them.
func importedAs(f *ast.File) map[string]string {
	packages := map[string]string{}
	for _, spec := range f.Imports {
		folder, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), ourPrefix)
		if !ours {
			continue
		}
		name := path.Base(folder)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		packages[name] = folder
	}
	return packages
}

// embedded gives the types of ours that a struct embeds.
func embedded(t ast.Expr, pkg string, packages map[string]string) (names []string) {
	s, ok := t.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, field := range s.Fields.List {
		if len(field.Names) == 0 {
			names = append(names, qualified(field.Type, pkg, packages))
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

// qualified names a type by its package's folder; it is empty for those of others.
func qualified(t ast.Expr, pkg string, packages map[string]string) string {
	switch t := t.(type) {
	case *ast.Ident:
		return pkg + "." + t.Name
	case *ast.StarExpr:
		return qualified(t.X, pkg, packages)
	case *ast.ParenExpr:
		return qualified(t.X, pkg, packages)
	case *ast.IndexExpr:
		return qualified(t.X, pkg, packages)
	case *ast.IndexListExpr:
		return qualified(t.X, pkg, packages)
	case *ast.SelectorExpr:
		if x, ok := t.X.(*ast.Ident); ok && packages[x.Name] != "" {
			return packages[x.Name] + "." + t.Sel.Name
		}
	}
	return ""
}

// count gives how many methods a type has, with those of all that it embeds.
func (set typeSet) count(name string, seen map[string]bool) int {
	if seen[name] {
		return 0
	}
	seen[name] = true
	n := len(set.methods[name])
	for _, e := range set.embeds[name] {
		n += set.count(e, seen)
	}
	return n
}

func TestMethods(t *testing.T) {
	set := typesOf(sources(t))
	names := slices.Sorted(maps.Keys(set.embeds))
	if len(names) < 500 {
		t.Fatalf("found only %d types", len(names))
	}
	for _, name := range names {
		if n := set.count(name, map[string]bool{}); n > maxMethods {
			t.Errorf("%s has %d methods with those of what it embeds, more than %d", name, n, maxMethods)
		}
	}
}

// A type isn't made smaller by embedding its parts, wherever they are declared.
func TestMethodsOfEmbeddedTypesCount(t *testing.T) {
	files := map[string]string{
		"a/b/one.go": `package b
import other "` + ourPrefix + `c/d"
type outer struct { *inner; other.Part; named inner; generic[int] }
type inner struct { deep }
type deep struct{}
type generic[T any] struct{}
func (outer) A() {}
func (*inner) B() {}
func (deep) C() {}
func (*generic[T]) D() {}
`,
		"c/d/two.go": `package d
type Part struct{ *Part }
func (p Part) E() {}
func (p *Part) F() {}
`,
	}
	set := typeSet{methods: map[string]map[string]bool{}, embeds: map[string][]string{}}
	for at, text := range files {
		s, err := parseText(at, "a", text)
		if err != nil {
			t.Fatal(err)
		}
		set.add(s)
	}
	for name, want := range map[string]int{"a/b.outer": 6, "a/b.inner": 2, "c/d.Part": 2, "a/b.generic": 1} {
		if got := set.count(name, map[string]bool{}); got != want {
			t.Errorf("%s has %d methods, want %d", name, got, want)
		}
	}
}
