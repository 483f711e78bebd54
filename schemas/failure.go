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
