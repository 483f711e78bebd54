package rootfs

import (
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/diapause/diapause/schemas"
)

// Config is what an image says of how it is run.
type Config struct {
	Command []string // its entrypoint with its arguments
	Env     []string
	Dir     string
	User    string
}

func configOf(c v1.Config) Config {
	return Config{Command: slices.Concat(c.Entrypoint, c.Cmd), Env: c.Env, Dir: c.WorkingDir, User: c.User}
}

// Fill gives what a spec doesn't say. A command that is given takes the place of the entrypoint,
// too, and each variable that is given that of the image's.
func (c Config) Fill(s schemas.Spec) schemas.Spec {
	if len(s.Command) == 0 {
		s.Command = c.Command
	}
	if s.Dir == "" {
		s.Dir = c.Dir
	}
	if s.User == "" {
		s.User = c.User
	}
	var env []string
	for _, has := range c.Env {
		name, _, _ := strings.Cut(has, "=")
		if !slices.ContainsFunc(s.Env, func(given string) bool { return strings.HasPrefix(given, name+"=") }) {
			env = append(env, has)
		}
	}
	s.Env = append(env, s.Env...)
	return s
}
