package structure

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// maxErrorWords is the length of an error's text before its cause.
const maxErrorWords = 12

// banned are words that an engineer who learned English from manuals must look up, and
// metaphors of this project. They appear in no comment, text, document, identifier or
// file name.
var banned = []string{
	"whoever", "whomever", "nobody", "somebody", "begun", "anew", "whatever", "for want of",
	"stillborn", "unborn", "not born", "diary", "diaries", "excuse", "excuses", "bed", "beds", "town", "towns",
	"let go of", "lets go of", "letting go of", "aloft", "hence", "henceforth", "thereby", "therein", "thereof",
	"thereupon", "wherein", "whereupon", "whence", "whither", "lest", "forthwith", "heretofore", "ere",
}

// metaphors are banned as names; in a text they may mean what they say.
var metaphors = []string{"home", "homes"}

// homes is the package that sets a user's home directory.
const homes = "workers/shim/stage"

// vague are file names that don't say what is in the file.
var vague = []string{
	"again", "apart", "aside", "away", "gone", "kept", "mute", "others", "still", "told", "unrun", "whole", "wrong",
}

var bannedText = regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(strings.Join(banned, "|"), " ", `\s+`) + `)\b`)

// tells has the longest word of each of them: a text without one of these has no banned
// word. To look for them is much faster than the expression.
var tells = func() map[string]bool {
	words := map[string]bool{}
	for _, b := range banned {
		parts := strings.Fields(b)
		words[slices.MaxFunc(parts, func(a, b string) int { return len(a) - len(b) })] = true
	}
	return words
}()

// mayHaveBanned reports whether a text has one of the words of tells.
func mayHaveBanned(text string) bool {
	for at := 0; at < len(text); {
		end := at
		for end < len(text) && isWord[text[end]] {
			end++
		}
		if end > at && tells[strings.ToLower(text[at:end])] {
			return true
		}
		at = end + 1
	}
	return false
}

// isWord says which bytes an expression's \b has for parts of a word.
var isWord = func() (is [256]bool) {
	for c := range is {
		is[c] = c == '_' || c < unicode.MaxASCII && (unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)))
	}
	return is
}()

// wire are words of earlier versions of the program, and of the system.
var wire = regexp.MustCompile(`diapause\.v1\.diary|"DIARY"|worker\.capture\.begun|--user nobody|nobody:x:65534:65534:nobody`)

// hit is one place that breaks a rule of prose.
type hit struct{ at, what string }

// TestBannedWords looks for the banned words in all that we write.
func TestBannedWords(t *testing.T) {
	var hits []hit
	for _, s := range sources(t) {
		hits = append(hits, bannedInSource(s)...)
	}
	for _, name := range files(t) {
		if stem, _, _ := strings.Cut(strings.TrimSuffix(path.Base(name), "_test.go"), "."); slices.Contains(vague, stem) || bannedText.MatchString(stem) {
			hits = append(hits, hit{name, "the name of the file"})
		}
		if ext := path.Ext(name); ext == ".md" || ext == ".sh" || ext == ".txtar" || path.Base(name) == "Makefile" {
			text, err := os.ReadFile(filepath.Join(top, name))
			if err != nil {
				t.Fatal(err)
			}
			hits = append(hits, bannedIn(string(text), name, 1)...)
		}
	}
	report(t, hits)
}

func bannedInSource(s source) (hits []hit) {
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			hits = append(hits, bannedIn(c.Text, s.path, s.fset.Position(c.Pos()).Line)...)
		}
	}
	if strings.HasSuffix(s.path, "/prose_test.go") { // which names what it looks for
		return nil
	}
	seen := map[string]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				hits = append(hits, bannedIn(n.Value, s.path, s.fset.Position(n.Pos()).Line)...)
			}
		case *ast.Ident:
			if seen[n.Name] {
				return true
			}
			seen[n.Name] = true
			words, bad := split(n.Name), ""
			if text := strings.Join(words, " "); mayHaveBanned(text) {
				bad = bannedText.FindString(text)
			}
			for _, w := range words {
				if slices.Contains(metaphors, w) && n.Name != "UserHomeDir" && s.pkg() != homes {
					bad = w
				}
			}
			if bad != "" {
				hits = append(hits, hit{s.fset.Position(n.Pos()).String(), "the name " + n.Name})
			}
		}
		return true
	})
	return hits
}

// bannedIn finds the banned words of a text that begins at a line of a file.
func bannedIn(text, file string, line int) (hits []hit) {
	if !mayHaveBanned(text) {
		return nil
	}
	text = wire.ReplaceAllStringFunc(text, func(word string) string { return strings.Repeat("-", len(word)) })
	for _, at := range bannedText.FindAllStringIndex(text, -1) {
		n := line + strings.Count(text[:at[0]], "\n")
		hits = append(hits, hit{fmt.Sprintf("%s:%d", file, n), strconv.Quote(text[at[0]:at[1]])})
	}
	return hits
}

// split cuts a name in camel case into lower-case words.
func split(name string) (words []string) {
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || runes[i] == '_' || unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]) {
			if w := strings.Trim(strings.ToLower(string(runes[start:i])), "_"); w != "" {
				words = append(words, w)
			}
			start = i
		}
	}
	return words
}

// files lists what the repository holds, but for what was built or fetched.
func files(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "node_modules" || name == "bin" || name == ".git" || name == ".build"):
			return fs.SkipDir
		case d.Type().IsRegular():
			rel, err := filepath.Rel(top, path)
			names = append(names, filepath.ToSlash(rel))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 500 {
		t.Fatalf("found only %d files", len(names))
	}
	return names
}

// Each banned word is found in a sentence, across lines, in any case.
func TestBannedWordsAreFound(t *testing.T) {
	for _, b := range banned {
		for _, text := range []string{"It has " + b + ".", "// (" + strings.ToUpper(b) + ")", strings.ReplaceAll(b, " ", "\n\t")} {
			if hits := bannedIn(text, "a.go", 1); len(hits) != 1 {
				t.Errorf("in %q it finds %v", text, hits)
			}
		}
		if hits := bannedIn("a_"+b+" x"+b+" "+b+"x", "a.go", 1); len(hits) != 0 {
			t.Errorf("within other words it finds %v", hits)
		}
	}
}

func report(t *testing.T, hits []hit) {
	t.Helper()
	for _, h := range hits {
		t.Errorf("%s: %s", strings.TrimPrefix(filepath.ToSlash(h.at), top+"/"), h.what)
	}
}

// TestErrorLength holds errors to `verb object: cause`, with a short text before the cause.
func TestErrorLength(t *testing.T) {
	all := sources(t)
	makers := errorMakers(all)
	var hits []hit
	var lengths []int
	for _, s := range all {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			for _, text := range errorTexts(n, makers) {
				words := errorWords(text)
				lengths = append(lengths, words)
				if words > maxErrorWords {
					hits = append(hits, hit{s.fset.Position(n.Pos()).String(), fmt.Sprintf("%d words: %q", words, text)})
				}
			}
			return true
		})
	}
	if len(lengths) < 500 {
		t.Fatalf("found only %d error texts", len(lengths))
	}
	slices.Sort(lengths)
	t.Logf("%d error texts: median %d words, p90 %d, max %d", len(lengths), lengths[len(lengths)/2], lengths[len(lengths)*9/10], lengths[len(lengths)-1])
	report(t, hits)
}

// errorMakers finds our functions that make an error of a format and its arguments, and
// which of their parameters the format is.
func errorMakers(all []source) map[string]int {
	makers := map[string]int{"New": 0, "Errorf": 0}
	for _, s := range all {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				if at := formatParameter(f.Type); at >= 0 && f.Name.Name != "WithHint" {
					makers[f.Name.Name] = at
				}
			}
		}
	}
	return makers
}

// formatParameter is the place of the format in `func(…, format string, args ...any) error`;
// -1 for any other function.
func formatParameter(f *ast.FuncType) int {
	if f.Results == nil || len(f.Results.List) != 1 || len(f.Params.List) == 0 {
		return -1
	}
	switch r := f.Results.List[0].Type.(type) {
	case *ast.Ident:
		if r.Name != "error" {
			return -1
		}
	case *ast.StarExpr:
		if !strings.HasSuffix(nameOf(r.X), "Error") {
			return -1
		}
	default:
		return -1
	}
	last := f.Params.List[len(f.Params.List)-1]
	rest, ok := last.Type.(*ast.Ellipsis)
	if !ok || nameOf(rest.Elt) != "any" {
		return -1
	}
	n := f.Params.NumFields()
	return n - 2
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// errorTexts gives the texts of errors that a node makes.
func errorTexts(n ast.Node, makers map[string]int) (texts []string) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "New" || sel.Sel.Name == "Errorf") {
			if x := nameOf(sel.X); x != "errors" && x != "fmt" {
				return nil
			}
		}
		if at, ok := makers[nameOf(n.Fun)]; ok && at >= 0 && at < len(n.Args) {
			if text, ok := literal(n.Args[at]); ok {
				texts = append(texts, text)
			}
		}
	case *ast.CompositeLit:
		if !strings.HasSuffix(nameOf(n.Type), "Error") && !strings.HasSuffix(nameOf(n.Type), "Refusal") {
			return nil
		}
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && strings.EqualFold(nameOf(kv.Key), "text") {
				value := kv.Value
				if call, ok := value.(*ast.CallExpr); ok && nameOf(call.Fun) == "Sprintf" {
					value = call.Args[0]
				}
				if text, ok := literal(value); ok {
					texts = append(texts, text)
				}
			}
		}
	}
	return texts
}

// literal is the text of a constant string, or of several with parts between them.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, okX := literal(e.X)
		y, okY := literal(e.Y)
		if !okX {
			x = " %s "
		}
		if !okY {
			y = " %s "
		}
		return x + y, okX || okY
	}
	return "", false
}

var cause = regexp.MustCompile(`: %[wv]`)

// errorWords counts the words before the cause.
func errorWords(text string) int {
	if at := cause.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	return len(strings.Fields(text))
}
