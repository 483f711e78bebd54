package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Root is the top of the source tree that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the source tree: %w", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not in diapause's source tree: no go.work above it", dir)
		}
	}
}

// Build compiles package pkg of module (a directory of the source tree) into
// the file out, statically.
func Build(ctx context.Context, module, pkg, out string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", out, pkg)
	cmd.Dir = filepath.Join(root, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s of %s: %w\n%s", pkg, module, err, b)
	}
	return nil
}

// Binary puts diapause into dir and gives its path; DIAPAUSE_BIN names one that is
// built already.
func Binary(dir string) (string, error) {
	if named := os.Getenv("DIAPAUSE_BIN"); named != "" {
		return filepath.Abs(named)
	}
	return Program(dir)
}

// Commit names the commit of the source tree, "+" behind it if files differ
// from it, or says that there is none yet.
func Commit(ctx context.Context) string {
	rev, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "not committed yet"
	}
	commit := strings.TrimSpace(string(rev))
	// What the runs themselves write is no difference.
	err = exec.CommandContext(ctx, "git", "diff", "--quiet", "HEAD", "--", ":/", ":(exclude,top)*RESULTS.md").Run()
	var differs *exec.ExitError
	if errors.As(err, &differs) {
		commit += "+"
	}
	return commit
}
