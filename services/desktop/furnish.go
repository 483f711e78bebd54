package desktop

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/diapause/diapause/schemas"
)

var (
	//go:embed start.sh
	start string
	//go:embed display.sh
	display string
)

// ofDesktop are variables that every desktop has, unless the session's own say otherwise.
var ofDesktop = []string{
	// Settings of GTK are in a file of their own: the one of dconf is replaced while programs have it mapped.
	"GSETTINGS_BACKEND=keyfile",
	// OpenGL, which there is none of, would be loaded and captured all the same.
	"QT_XCB_GL_INTEGRATION=none", "GSK_RENDERER=cairo",
	"XDG_RUNTIME_DIR=/tmp/.diapause-desktop", "DBUS_SESSION_BUS_ADDRESS=unix:path=/tmp/.diapause-desktop/bus", "LIBGL_ALWAYS_SOFTWARE=1", "NO_AT_BRIDGE=1", "GTK_A11Y=none", "GDK_BACKEND=x11",
}

// Furnish has a spec run a desktop with what its command says, and gives the name of the program for lists.
func Furnish(s *schemas.Spec, r schemas.DesktopRequest) (d schemas.Desktop, program string, err error) {
	d = schemas.Desktop{Size: cmp.Or(r.Size, schemas.DesktopSize), Display: schemas.DesktopScreen, Port: schemas.DesktopVNC}
	if _, _, err := schemas.ParseDesktopSize(d.Size); err != nil {
		return d, "", err
	}
	env := append([]string{"DISPLAY=" + d.Display}, ofDesktop...)
	a, known := apps[r.App]
	switch {
	case known:
		program, env = r.App, append(env, a.env...)
		s.Command = append(slices.Clone(a.command), s.Command...)
	case r.App != "":
		return d, "", fmt.Errorf("app %.40q: want %s", r.App, strings.Join(Apps(), ", "))
	case len(s.Command) == 0:
		return d, "", errors.New("neither an app nor a command is given")
	default:
		program = s.Command[0]
	}
	s.Desktop = d.Port
	s.Command = append([]string{"sh", "-c", start, "desktop", display, d.Size}, s.Command...)
	s.Env = slices.DeleteFunc(slices.Clone(s.Env), func(e string) bool { return own(e, env[:1]) })
	s.Env = append(slices.DeleteFunc(env, func(e string) bool { return own(e, s.Env) }), s.Env...)
	return d, program, nil
}

// own reports whether any of all sets the same variable as e.
func own(e string, all []string) bool {
	name, _, _ := strings.Cut(e, "=")
	return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, name+"=") })
}
