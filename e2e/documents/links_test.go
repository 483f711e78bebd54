package documents_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const top = "../.."

// tree is what documents may speak of.
type tree struct {
	documents map[string]string // their texts, by their paths from the top
	code      string            // all sources, scripts and the Makefile, one after the other
}

func readTree(t *testing.T) tree {
	t.Helper()
	w := tree{documents: map[string]string{}}
	var code strings.Builder
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "node_modules" || name != ".." && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		ext := filepath.Ext(name)
		if ext != ".md" && ext != ".go" && ext != ".sh" && ext != ".txtar" && name != "Makefile" {
			return nil
		}
		text, err := os.ReadFile(path)
		if ext == ".md" {
			rel, _ := filepath.Rel(top, path) // both are below this one
			w.documents[rel] = string(text)
		} else {
			code.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.code = code.String(); len(w.documents) < 15 || len(w.code) < 1<<20 {
		t.Fatalf("there are %d documents and %d bytes of code below %s", len(w.documents), len(w.code), top)
	}
	return w
}

var (
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	quoted  = regexp.MustCompile("`([^`\n]+)`")
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
)

// Every link within the project leads to a file that is there, and to a heading in it.
func TestLinks(t *testing.T) {
	w := readTree(t)
	for doc, text := range w.documents {
		for _, m := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			to := doc
			if file != "" {
				to = filepath.Join(filepath.Dir(doc), file)
			}
			if _, err := os.Stat(filepath.Join(top, to)); err != nil {
				t.Errorf("%s links to %s, which isn't there", doc, m[1])
			} else if anchor != "" && !anchors(w.documents[to])[anchor] {
				t.Errorf("%s links to %s: there is no such heading", doc, m[1])
			}
		}
	}
}

// anchors are what GitHub calls a document's headings.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		out[regexp.MustCompile(`[^\p{L}\p{N}_-]`).ReplaceAllString(name, "")] = true
	}
	return out
}

// What documents name of the code is there: paths, tests, targets of make, variables of the
// environment.
func TestNames(t *testing.T) {
	w := readTree(t)
	path := regexp.MustCompile(`^(schemas|events|objectstore|workers|services|e2e|compose)/[\w./-]+$|^[\w-]+/[\w./-]+\.(go|md|sh|py|txtar|mjs)$`)
	test := regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w+`)
	target := regexp.MustCompile(`\bmake ([a-z-]+)`)
	variable := regexp.MustCompile(`\bDIAPAUSE_[A-Z_]+\b`)
	there := func(doc, kind, name string, found bool) {
		if !found {
			t.Errorf("%s speaks of the %s %s, which isn't there", doc, kind, name)
		}
	}
	exists := func(at ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{top}, at...)...))
		return err == nil
	}
	for doc, text := range w.documents {
		for _, m := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			word := m[1]
			if path.MatchString(word) {
				there(doc, "path", word, exists(word) || exists(filepath.Dir(doc), word))
			}
			for _, m := range target.FindAllStringSubmatch(word, -1) {
				there(doc, "target", m[1], regexp.MustCompile(`(?m)^`+m[1]+`:`).MatchString(w.code))
			}
		}
		for _, name := range test.FindAllString(text, -1) {
			there(doc, "test", name, strings.Contains(w.code, "func "+name))
		}
		for _, name := range variable.FindAllString(text, -1) {
			there(doc, "variable", name, strings.Contains(w.code, name))
		}
	}
}
