package objectstore

import (
	"fmt"
	"strings"
)

// Longest name and longest element of a name, in bytes.
const (
	MaxName    = 1024
	MaxElement = 200
)

// CheckName reports, as an ErrName, what keeps name from being an object's name.
// Names are elements joined by single slashes. An element is one or more of
// A-Z a-z 0-9 "." "_" "-", does not start with a dot and has at most MaxElement
// bytes. No object's name may be a leading part of another's, as "a" is of "a/b":
// a store may refuse the second.
func CheckName(name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("%w: %.40q… is longer than %d bytes", ErrName, name, MaxName)
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || element[0] == '.' || len(element) > MaxElement {
			return fmt.Errorf("%w: %q has an empty, hidden or overlong element", ErrName, name)
		}
		if strings.ContainsFunc(element, notNameRune) {
			return fmt.Errorf("%w: %q has a character outside A-Z a-z 0-9 . _ -", ErrName, name)
		}
	}
	return nil
}

func notNameRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		return false
	}
	return true
}
