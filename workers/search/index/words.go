package index

import (
	"fmt"
	"hash/fnv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWord is how long a word is that is indexed as it is, in bytes. maxNumber is that of a number.
const (
	maxWord   = 20
	maxNumber = 3
)

// unspaced are the scripts that put no spaces between words: each character of theirs is one.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// fold makes a text comparable, whichever its case.
func fold(text string) string { return strings.Map(unicode.ToLower, text) }

// kind is what a character is in a word.
type kind byte

const (
	between kind = iota // of words
	letter
	digit
	alone // a word by itself
)

func kindOf(r rune) kind {
	switch {
	case r < utf8.RuneSelf:
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			return letter
		case r >= '0' && r <= '9':
			return digit
		}
		return between
	case unicode.In(r, unspaced...):
		return alone
	case unicode.IsLetter(r), unicode.IsMark(r):
		return letter
	case unicode.IsDigit(r):
		return digit
	}
	return between
}

// eachWord calls fn with the words of a text that was folded. strange says that a word has digits, or is very long.
func eachWord(folded string, fn func(word string, strange bool)) {
	begin, digits := -1, false
	end := func(at int) {
		if begin >= 0 {
			word := folded[begin:at]
			strange := len(word) > maxWord || digits && len(word) > maxNumber || digits && strings.IndexFunc(word, func(r rune) bool { return kindOf(r) == letter }) >= 0
			fn(word, strange)
		}
		begin, digits = -1, false
	}
	for at, r := range folded {
		switch k := kindOf(r); k {
		case between:
			end(at)
		case alone:
			end(at)
			fn(folded[at:at+utf8.RuneLen(r)], false)
		default:
			if begin < 0 {
				begin = at
			}
			digits = digits || k == digit
		}
	}
	end(len(folded))
}

// The hashes of words. Where a block has many, they have fewer bits, and fewer still in a small index.
const (
	fineBits   = 14
	middleBits = 13
	coarseBits = 11
)

func hashOf(word string, bits int) uint32 {
	h := fnv.New64a()
	h.Write([]byte(word))
	sum := h.Sum64()
	sum ^= sum >> 29
	return uint32(sum) & (1<<bits - 1)
}

// fine, middle and coarse are what a word is indexed as that isn't indexed as it is. No other word is as long and begins so.
func fine(word string) string   { return fmt.Sprintf("0%04x", hashOf(word, fineBits)) }
func middle(word string) string { return fmt.Sprintf("2%04x", hashOf(word, middleBits)) }
func coarse(word string) string { return fmt.Sprintf("1%04x", hashOf(word, coarseBits)) }
