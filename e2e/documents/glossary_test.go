package documents_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// Each term of the glossary has one line, and is used by the code and in a document.
func TestGlossary(t *testing.T) {
	w := readTree(t)
	var others strings.Builder
	for doc, text := range w.documents {
		if doc != "GLOSSARY.md" {
			others.WriteString(text)
		}
	}
	rows := regexp.MustCompile(`(?m)^\| ([a-z][a-z -]*) \| (.*) \|$`).FindAllStringSubmatch(w.documents["GLOSSARY.md"], -1)
	if len(rows) < 50 {
		t.Fatalf("the glossary has %d terms", len(rows))
	}
	seen := map[string]bool{"term": true}
	code, text := strings.ToLower(w.code), strings.ToLower(others.String())
	for _, row := range rows {
		term, meaning := row[1], row[2]
		if term == "term" {
			continue
		}
		if seen[term] {
			t.Errorf("%s: explained twice", term)
		}
		seen[term] = true
		if n := len(strings.Fields(meaning)); n < 3 || n > 20 {
			t.Errorf("%s: explained in %d words, want 3 to 20", term, n)
		}
		if !uses(code, term) {
			t.Errorf("%s: the code doesn't use it", term)
		}
		if !uses(text, term) {
			t.Errorf("%s: no other document uses it", term)
		}
	}
}

// uses reports whether a lower-case text has a term at the beginning of a word. The words
// of the term may have spaces between them, or none, as in an identifier.
func uses(text, term string) bool {
	words := strings.Fields(term)
	for at := 0; ; {
		i := strings.Index(text[at:], words[0])
		if i < 0 {
			return false
		}
		at += i + len(words[0])
		if begins(text, at-len(words[0])) && followed(text[at:], words[1:]) {
			return true
		}
	}
}

// begins reports whether no word goes on at a place of a text.
func begins(text string, at int) bool {
	if at == 0 {
		return true
	}
	c := rune(text[at-1])
	return c != '_' && (c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c))
}

func followed(text string, words []string) bool {
	for _, w := range words {
		var ok bool
		if text, ok = strings.CutPrefix(strings.TrimLeftFunc(text, unicode.IsSpace), w); !ok {
			return false
		}
	}
	return true
}

func TestUses(t *testing.T) {
	for text, want := range map[string]bool{
		"a lineage key": true, "lineagekeys": true, "(lineage\n\tkey)": true, "lineage lineage key": true,
		"lineage_key": false, "sublineage key": false, "_lineage key": false, "lineage": false, "": false,
	} {
		if uses(text, "lineage key") != want {
			t.Errorf("that %q uses it is %t", text, !want)
		}
	}
}
