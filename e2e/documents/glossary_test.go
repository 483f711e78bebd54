package documents_test

import (
	"regexp"
	"strings"
	"testing"
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
		used := regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(regexp.QuoteMeta(term), " ", `\s*`))
		if !used.MatchString(w.code) {
			t.Errorf("%s: the code doesn't use it", term)
		}
		if !used.MatchString(others.String()) {
			t.Errorf("%s: no other document uses it", term)
		}
	}
}
