package stack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// Build builds the program into dir and gives its path.
func Build(dir string) (string, error) {
	program := filepath.Join(dir, "diapause")
	if err := build(top("services"), program, "./cmd/diapause"); err != nil {
		return "", err
	}
	return program, nil
}

func build(module, program, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// top gives the directory of a module of this repository.
func top(module string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", module)
}
