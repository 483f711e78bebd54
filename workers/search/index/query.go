package index

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a query: words, and bytes of each.
const (
	maxWords = 32
	maxQuery = 1 << 10
)

// Query is what is looked for. A line is found that has all of the words, each of which may be several in a row, in either case. Words are
// whole ones.
type Query struct {
	words        []string // folded
	pattern      *regexp.Regexp
	Since, Until time.Time // of the line; zero for no bound
}

// NewQuery reads words.
func NewQuery(words []string) (*Query, error) {
	q := &Query{}
	for _, w := range words {
		if !utf8.ValidString(w) {
			return nil, errors.New("a word isn't UTF-8")
		}
		if w = fold(strings.TrimSpace(w)); w == "" {
			continue
		}
		if len(w) > maxQuery {
			return nil, fmt.Errorf("a word has more than %d bytes", maxQuery)
		}
		q.words = append(q.words, w)
	}
	if len(q.words) == 0 {
		return nil, errors.New("no word is given")
	}
	if len(q.words) > maxWords {
		return nil, fmt.Errorf("there are more than %d words", maxWords)
	}
	return q, nil
}

// NewPattern reads a regular expression, as RE2 has them.
func NewPattern(text string) (*Query, error) {
	if len(text) > maxQuery {
		return nil, fmt.Errorf("the expression has more than %d bytes", maxQuery)
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("it is no regular expression: %w", err)
	}
	return &Query{pattern: pattern}, nil
}

// Scans reports whether no index helps, and all is to be read.
func (q *Query) Scans() bool {
	if q.pattern != nil {
		return true
	}
	indexed := false
	for _, w := range q.words {
		eachWord(w, func(string, bool) { indexed = true })
	}
	return !indexed
}

// Matches decides of a line.
func (q *Query) Matches(line string) bool {
	if q.pattern != nil {
		return q.pattern.MatchString(line)
	}
	line = fold(line)
	for _, w := range q.words {
		if !has(line, w) {
			return false
		}
	}
	return true
}

// has reports whether a text has a word, as a whole one.
func has(text, word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	last, _ := utf8.DecodeLastRuneInString(word)
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:from])
		after, _ := utf8.DecodeRuneInString(text[to:])
		if (from == 0 || !joined(before, first)) && (to == len(text) || !joined(last, after)) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[from:])
		at = from + size
	}
}

// joined reports whether two characters that follow on each other are of one word.
func joined(a, b rune) bool {
	x, y := kindOf(a), kindOf(b)
	return (x == letter || x == digit) && (y == letter || y == digit)
}

// During reports whether something that went on from one moment to another may be of the time that is asked for.
func (q *Query) During(from, to time.Time) bool {
	return (q.Since.IsZero() || !to.Before(q.Since)) && (q.Until.IsZero() || from.Before(q.Until))
}

// expression is the query in FTS5's language. All words in it are quoted, and of one token each. hashed says that words may be indexed
// by their hashes alone.
func (q *Query) expression(hashed bool) string {
	var terms []string
	for _, w := range q.words {
		eachWord(w, func(word string, strange bool) {
			var forms []string
			if !strange {
				forms = append(forms, word)
			}
			if strange || hashed {
				forms = append(forms, fine(word), middle(word), coarse(word))
			}
			terms = append(terms, `("`+strings.Join(forms, `" OR "`)+`")`)
		})
	}
	return strings.Join(terms, " AND ")
}

// longLine is how much of a line is given, in characters.
const longLine = 500

// Cut gives the beginning of a line, if it is long.
func Cut(line string) string { return cut(line, 0) }

// Cut gives the part of a line that has what is looked for, if it is long.
func (q *Query) Cut(line string) string {
	if len(line) <= longLine {
		return line
	}
	at := 0
	if q.pattern != nil {
		if found := q.pattern.FindStringIndex(line); found != nil {
			at = utf8.RuneCountInString(line[:found[0]])
		}
	} else if folded := fold(line); strings.Contains(folded, q.words[0]) {
		at = utf8.RuneCountInString(folded[:strings.Index(folded, q.words[0])])
	}
	return cut(line, max(at-longLine/4, 0))
}

// cut gives the characters of a line from one on.
func cut(line string, from int) string {
	if len(line) <= longLine {
		return line
	}
	all := []rune(line)
	out := string(all[from:min(from+longLine, len(all))])
	if from > 0 {
		out = "… " + out
	}
	if from+longLine < len(all) {
		out += " …"
	}
	return out
}
