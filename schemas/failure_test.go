package schemas_test

import (
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestFailureNamesItsSessionOnce(t *testing.T) {
	n := schemas.Name{Tenant: schemas.DefaultTenant, Session: "web"}
	for text, want := range map[string]string{
		"no such user":                    "session web: no such user",
		"session web can't be captured":   "session web can't be captured",
		"stop session web: it hangs":      "stop session web: it hangs",
		"session website can't be opened": "session web: session website can't be opened",
	} {
		if got := (schemas.Failure{Text: text}).Of(n); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

func TestAboutASessionThatIsNamed(t *testing.T) {
	n := schemas.Name{Tenant: schemas.DefaultTenant, Session: "a"}
	for text, want := range map[string]string{
		"session a can't be captured": "it can't be captured",
		"session a: no room":          "no room",
		"session ab is busy":          "session ab is busy",
		"session a":                   "session a",
		"activity input came":         "activity input came",
	} {
		if got := schemas.About(n, text); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}
