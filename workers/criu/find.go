package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The oldest CRIU that works: older ones can't dump sockets on new kernels.
const (
	needMajor = 4
	needMinor = 2
)

// Find gives the command line that runs criu, without arguments: what
// DIAPAUSE_CRIU names, else the one that install.sh put into its prefix, else
// that in PATH if it is new enough.
func Find() ([]string, error) {
	if named := strings.Fields(os.Getenv("DIAPAUSE_CRIU")); len(named) > 0 {
		return named, nil
	}
	if argv, err := inPrefix(); err == nil {
		return argv, nil
	}
	if path, err := exec.LookPath("criu"); err == nil {
		if _, err := Version(context.Background(), []string{path}); err != nil {
			return nil, fmt.Errorf("%w; `diapause doctor` says how to get one that works", err)
		}
		return []string{path}, nil
	}
	return nil, errors.New("criu is not installed; see `diapause doctor`, or set DIAPAUSE_CRIU")
}

// inPrefix reads the command line that install.sh left.
func inPrefix() ([]string, error) {
	prefix := os.Getenv("DIAPAUSE_PREFIX")
	if prefix == "" {
		prefix = "/opt/diapause"
	}
	tree, err := filepath.EvalSymlinks(filepath.Join(prefix, "criu", "current"))
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(tree, "command"))
	if err != nil {
		return nil, err
	}
	var argv []string
	for line := range strings.Lines(string(b)) {
		argv = append(argv, strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "@", tree))
	}
	if len(argv) == 0 {
		return nil, fmt.Errorf("%s/command is empty", tree)
	}
	return argv, nil
}

var versionLine = regexp.MustCompile(`Version: *(\d+)\.(\d+)(\.\d+)*`)

// Version asks criu for its version ("4.2.1"), and refuses one that is too old.
func Version(ctx context.Context, command []string) (string, error) {
	out, err := exec.CommandContext(ctx, command[0], append(command[1:], "--version")...).Output()
	if err != nil {
		return "", fmt.Errorf("run %s --version: %w", strings.Join(command, " "), err)
	}
	m := versionLine.FindStringSubmatch(string(out))
	if m == nil {
		return "", fmt.Errorf("%s doesn't say its version", strings.Join(command, " "))
	}
	version := strings.TrimSpace(strings.TrimPrefix(m[0], "Version:"))
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < needMajor || major == needMajor && minor < needMinor {
		return "", fmt.Errorf("criu %s is too old, %d.%d is needed", version, needMajor, needMinor)
	}
	return version, nil
}

// identity tells versions of a command's files apart without running it: the
// program, and what is named to its loader. It is empty if a file is missing.
func identity(command []string) string {
	var all strings.Builder
	for i, word := range command {
		path := word
		if i == 0 && !strings.Contains(word, "/") {
			var err error
			if path, err = exec.LookPath(word); err != nil {
				return ""
			}
		}
		if !strings.HasPrefix(path, "/") || strings.Contains(path, ":") {
			continue // an option, or a list of directories
		}
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return ""
		}
		fmt.Fprintf(&all, "%s %d:%d %d %d.%d\n", path, st.Dev, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec)
	}
	return all.String()
}
