package stack

import (
	"errors"
	"fmt"
	"os"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Dir makes a directory that sessions can see at its own path: they see the
// root file system alone, and /tmp is often another one.
func Dir() (string, error) {
	if os.Geteuid() != 0 {
		return "", errors.New("these tests run sessions: they need root")
	}
	dir, err := os.MkdirTemp("/var/tmp", "diapause-e2e-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the tests: %w", err)
	}
	return dir, os.Chmod(dir, 0o755)
}

// Build puts the program into dir and gives its path: the build that all packages of
// tests share.
func Build(dir string) (string, error) { return local.Program(dir) }
