package desktop

import (
	"slices"
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestFurnish(t *testing.T) {
	s := schemas.Spec{Command: []string{"https://example.com"}, Env: []string{"DISPLAY=:7", "GDK_BACKEND=wayland"}}
	d, program, err := Furnish(&s, schemas.DesktopRequest{App: "firefox"})
	if err != nil {
		t.Fatal(err)
	}
	if want := (schemas.Desktop{Size: "1280x800", Display: ":1", Port: 5900}); d != want || program != "firefox" || s.Desktop != want.Port {
		t.Errorf("made %+v of %s", d, program)
	}
	if got := s.Command[len(s.Command)-2:]; !slices.Equal(got, []string{"firefox", "https://example.com"}) {
		t.Errorf("it ends with %q", got)
	}
	for _, want := range []string{"DISPLAY=:1", "GDK_BACKEND=wayland", "MOZ_DISABLE_CONTENT_SANDBOX=1"} {
		if !slices.Contains(s.Env, want) {
			t.Errorf("%s isn't in %q", want, s.Env)
		}
	}
	if slices.Contains(s.Env, "DISPLAY=:7") || slices.Contains(s.Env, "GDK_BACKEND=x11") {
		t.Errorf("a variable is there twice: %q", s.Env)
	}
}

func TestFurnishRefuses(t *testing.T) {
	for what, r := range map[string]schemas.DesktopRequest{
		"no program": {}, "an app that isn't known": {App: "emacs"},
		"a size that is none": {App: "xterm", Size: "800"}, "a small size": {App: "xterm", Size: "63x800"}, "a large size": {App: "xterm", Size: "800x8193"},
	} {
		if _, _, err := Furnish(&schemas.Spec{}, r); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
}
