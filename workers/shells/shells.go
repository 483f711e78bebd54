package shells

import (
	_ "embed"
	"path"
	"slices"
	"strings"
)

// Folder is where the files are inside a session.
const Folder = "/run/diapause/shells"

//go:embed marks/bash
var bash []byte

//go:embed marks/zshenv
var zshenv []byte

//go:embed marks/zsh
var zsh []byte

//go:embed marks/fish
var fish []byte

// The variables by which zsh finds its files, and finds them again.
const (
	zdotdir = "ZDOTDIR"
	kept    = "DIAPAUSE_ZDOTDIR"
)

// Shell is how a shell is started, and what it needs.
type Shell struct {
	Argv  []string
	Env   []string
	Files map[string][]byte // by their paths inside the session
}

// Integrate gives how a command is started so that it prints marks; false if it isn't a shell that does.
func Integrate(argv, env []string) (Shell, bool) {
	if len(argv) == 0 {
		return Shell{}, false
	}
	args := argv[1:]
	switch path.Base(argv[0]) {
	case "bash":
		if !only(args, "-i") {
			return Shell{}, false
		}
		file := Folder + "/bash"
		return Shell{slices.Concat(argv[:1], []string{"--rcfile", file}, args), env, map[string][]byte{file: bash}}, true
	case "zsh":
		if !only(args, "-i", "-l", "-il", "-li", "--login", "--interactive") {
			return Shell{}, false
		}
		return Shell{argv, zshEnv(env), map[string][]byte{Folder + "/zsh/.zshenv": zshenv, Folder + "/zsh/marks": zsh}}, true
	case "fish":
		if !only(args, "-i", "-l", "-il", "-li", "--login", "--interactive") {
			return Shell{}, false
		}
		file := Folder + "/fish"
		return Shell{slices.Concat(argv[:1], []string{"--init-command", "source " + file}, args), env, map[string][]byte{file: fish}}, true
	}
	return Shell{}, false
}

// only reports whether a shell with these arguments is interactive, reads its files and has no script.
func only(args []string, known ...string) bool {
	return !slices.ContainsFunc(args, func(a string) bool { return !slices.Contains(known, a) })
}

// zshEnv has zsh look for its first file in Folder.
func zshEnv(env []string) []string {
	var out []string
	for _, v := range env {
		if own, ok := strings.CutPrefix(v, zdotdir+"="); ok {
			v = kept + "=" + own
		}
		out = append(out, v)
	}
	return append(out, zdotdir+"="+Folder+"/zsh")
}
