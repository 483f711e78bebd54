package programs

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Program is one real program and what of its state is watched. It serves one
// session: its functions remember what they saw.
type Program struct {
	Name    string
	State   string   // what must be there after each resume, for the table
	Limits  string   // what is known not to work, for the table
	Needs   []string // commands that must be on the machine
	Version []string // prints the version
	Flags   []string // of diapause run
	Command []string
	Desktop *Desktop // of one that is run by `diapause desktop`, of which Flags and Command are then

	// Prepare brings the state about.
	Prepare func(context.Context, *local.Session) error
	// Check finds the state as it was after the round's resume, and changes it.
	Check func(ctx context.Context, s *local.Session, r Round) error
}

// Round is one suspend and resume of a program.
type Round struct {
	N    int // from 1
	Last bool
}

// patience bounds the wait for what a program does by itself.
const patience = time.Minute

// All makes the programs of the whole run.
func All() []Program {
	return []Program{
		Bash(), Python(), Node(), Redis("private"), Redis("none"), Redis("host"), RedisOutside(), Vim(), Tmux(), SQLite(), Journals(),
		Postgres(), GoServer(), JVM(), Sshd(), Npm(), Xterm(), Firefox(), Chromium(), PythonTests(),
	}
}

// Quick makes the ones that a short run samples.
func Quick() []Program {
	return []Program{Bash(), Python(), Redis("private"), Tmux(), SQLite(), Journals()}
}

// Missing says which commands the program lacks here, and what to do about it.
func (p Program) Missing() error {
	var lacks []string
	for _, need := range p.Needs {
		if _, err := exec.LookPath(need); err != nil {
			lacks = append(lacks, need)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("%s needs %s: run e2e/compat/install.sh", p.Name, strings.Join(lacks, ", "))
	}
	return nil
}

// VersionHere is the first line that the program prints for its version.
func (p Program) VersionHere(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, p.Version[0], p.Version[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w: %s", p.Name, err, strings.TrimSpace(string(out)))
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return shorten(line), nil
}

// shorten leaves the words of a version line that tell versions apart.
func shorten(line string) string {
	for _, field := range strings.Fields(line) {
		word := strings.TrimLeft(strings.TrimPrefix(field, "v="), "vgo(XTerm")
		if word != "" && word[0] >= '0' && word[0] <= '9' {
			return strings.TrimRight(word, "),")
		}
	}
	return line
}

// same compares what was with what is.
func same(what, was, is string) error {
	if was != is {
		return fmt.Errorf("%s was %q and is %q", what, was, is)
	}
	return nil
}
