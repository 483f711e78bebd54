package screen

import "strings"

// Shown is what a terminal shows, for those who read it as JSON.
type Shown struct {
	Rows      int      `json:"rows"`
	Cols      int      `json:"cols"`
	Title     string   `json:"title,omitempty"`
	Alternate bool     `json:"alternate"` // a program fills it, as editors do
	Lines     []string `json:"lines"`     // one for each row
}

// ShownOf gives what a screen shows.
func ShownOf(s *Screen) Shown {
	rows, cols := s.Size()
	out := Shown{Rows: rows, Cols: cols, Title: s.Title(), Alternate: s.Alternate(), Lines: make([]string, rows)}
	for i := range out.Lines {
		out.Lines[i] = s.Text(i)
	}
	return out
}

// String is the rows as text, without the empty ones at the end.
func (v Shown) String() string {
	text := strings.TrimRight(strings.Join(v.Lines, "\n"), "\n")
	if text == "" {
		return ""
	}
	return text + "\n"
}
