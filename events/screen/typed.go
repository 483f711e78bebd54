package screen

import (
	"bytes"
	"strings"
)

// The largest screen on which a line is put together that was typed.
const (
	typedRows = 8
	typedCols = 500
)

// TypedLine gives what a terminal shows of the echo of a line. The screen is no larger than that needs: a program can print many.
func TypedLine(echo []byte) string {
	count := min(typedRows, bytes.Count(echo, []byte("\n"))+len(echo)/typedCols+1)
	s := New(count, min(typedCols, max(len(echo), 1)))
	s.Write(echo)
	var rows []string
	for i := range count {
		rows = append(rows, s.Text(i))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}
