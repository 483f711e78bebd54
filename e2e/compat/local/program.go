package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Program puts the program into dir and gives its path. All packages of tests share one
// build, made as make build does it in .build at the top of the source tree. It is linked
// again only if a source has changed since.
func Program(dir string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	shared := filepath.Join(root, ".build", "e2e")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return "", fmt.Errorf("make a directory for the build: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(shared, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("open the lock of the build: %w", err)
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the build: %w", err)
	}
	built, program := filepath.Join(shared, "diapause"), filepath.Join(dir, "diapause")
	cmd := exec.Command(filepath.Join(root, "services", "cmd", "build.sh"), built)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	if err := copyProgram(built, program); err != nil {
		return "", fmt.Errorf("copy the program: %w", err)
	}
	return program, nil
}

// copyProgram copies rather than links: a later build may write into the same file.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
