package schemas

import "strings"

// Of gives a session's failure as a text that names the session once.
func (f Failure) Of(n Name) string {
	who := "session " + n.String()
	if strings.Contains(f.Text, who+" ") || strings.Contains(f.Text, who+":") {
		return f.Text
	}
	return who + ": " + f.Text
}

// About gives text, which is about a session, for a sentence that has named the session.
func About(n Name, text string) string {
	if rest, ok := strings.CutPrefix(text, "session "+n.String()); ok && rest != "" {
		switch rest[0] {
		case ' ':
			return "it" + rest
		case ':':
			return strings.TrimSpace(rest[1:])
		}
	}
	return text
}
