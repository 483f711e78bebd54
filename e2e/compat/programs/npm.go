package programs

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/diapause/diapause/e2e/compat/local"
)

var (
	//go:embed npm.sh
	npmStart string
	//go:embed registry.py
	npmRegistry string
)

// Npm is npm in the middle of an install whenever it is suspended: the registry,
// in the same session, holds half of the packages back until after the resume.
func Npm() Program {
	n := &npm{}
	return Program{
		Name:  "npm ci, interrupted",
		State: "an install that waits for half of its packages goes on over the same connections, and makes the tree of one that wasn't interrupted, by digest",
		Needs: []string{"npm", "node", python, npmPackages()}, Version: []string{"npm", "--version"},
		Flags: []string{"--env", "HOME=/tmp"}, Command: []string{"/bin/sh", "-c", npmStart, "sh", npmRegistry, filepath.Dir(npmPackages())},
		Prepare: n.prepare, Check: n.check,
	}
}

// npmPackages is the mark of the packages that install.sh has fetched.
func npmPackages() string {
	prefix := os.Getenv("DIAPAUSE_PREFIX")
	if prefix == "" {
		prefix = "/opt/diapause"
	}
	return prefix + "/node/compat/done"
}

// npm remembers the digest of the whole tree.
type npm struct{ tree string }

func (n *npm) prepare(ctx context.Context, s *local.Session) error {
	if _, err := s.Shell(ctx, "touch /tmp/release /tmp/go"); err != nil {
		return err
	}
	var err error
	if n.tree, err = n.done(ctx, s); err != nil {
		return err
	}
	return n.begin(ctx, s)
}

// begin starts an install and waits until it lacks nothing but what is held back.
func (n *npm) begin(ctx context.Context, s *local.Session) error {
	if _, err := s.Shell(ctx, "rm -f /tmp/release /tmp/done /tmp/held; touch /tmp/go"); err != nil {
		return err
	}
	if _, err := s.Until(ctx, patience, `[ "$(cat /tmp/held)" -gt 5 ]`); err != nil {
		return n.explain(ctx, s, fmt.Errorf("the install doesn't come to its middle: %w", err))
	}
	return nil
}

// done waits for the end of an install and gives the digest of its tree.
func (n *npm) done(ctx context.Context, s *local.Session) (string, error) {
	code, err := s.Until(ctx, patience, "cat /tmp/done")
	if err == nil {
		err = same("npm's exit code", "0", strings.TrimSpace(code))
	}
	if err != nil {
		return "", n.explain(ctx, s, fmt.Errorf("the install doesn't end well: %w", err))
	}
	return s.Shell(ctx, "cd /tmp/app/node_modules && find . -type f -o -type l | sort | xargs -d '\\n' sha256sum | sha256sum")
}

func (n *npm) check(ctx context.Context, s *local.Session, r Round) error {
	if _, err := s.Shell(ctx, "test ! -e /tmp/done"); err != nil {
		return fmt.Errorf("the install ended before it was let: %w", err)
	}
	if _, err := s.Shell(ctx, "touch /tmp/release"); err != nil {
		return err
	}
	tree, err := n.done(ctx, s)
	if err != nil {
		return err
	}
	if err := same("the digest of the tree", n.tree, tree); err != nil || r.Last {
		return err
	}
	return n.begin(ctx, s)
}

func (n *npm) explain(ctx context.Context, s *local.Session, err error) error {
	said, _ := s.Shell(context.WithoutCancel(ctx), "tail -n 5 /tmp/start.out")
	return fmt.Errorf("%w: %s", err, said)
}
