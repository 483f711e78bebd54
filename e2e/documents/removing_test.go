package documents_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The commands by which Diapause is removed leave no file, process, mount or cgroup of it.
func TestRemoving(t *testing.T) {
	text, err := os.ReadFile("../../services/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Removing Diapause\n")
	section, _, _ = strings.Cut(section, "\n## ")
	lines := shellLines(section)
	if len(lines) != 3 {
		t.Fatalf("the section shows %q", lines)
	}
	data := filepath.Join(t.TempDir(), "data")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("DIAPAUSE_DATA", data)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	startUp(ctx, t)
	run(ctx, t, "diapause run --name runs -- sleep 1000000")
	run(ctx, t, "diapause run --name acme/sleeps -- sleep 1000000")
	run(ctx, t, "diapause suspend acme/sleeps")
	host, err := os.ReadFile(filepath.Join(data, "host"))
	if err != nil {
		t.Fatal(err)
	}
	groups := []string{"/sys/fs/cgroup/diapause/" + strings.TrimSpace(string(host)), "/sys/fs/cgroup/*/diapause/" + strings.TrimSpace(string(host))}
	if len(matching(t, groups...)) == 0 {
		t.Fatalf("while it runs there is none of %q", groups)
	}
	for _, line := range lines {
		run(ctx, t, line)
	}
	left := matching(t, append(groups, data)...)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), data) {
		left = append(left, "mounts:\n"+string(mounts))
	}
	for _, p := range matching(t, "/proc/[0-9]*/cmdline") {
		if said, err := os.ReadFile(p); err == nil && strings.Contains(string(said), data) {
			left = append(left, p+": "+strings.ReplaceAll(string(said), "\x00", " "))
		}
	}
	for _, l := range left {
		t.Errorf("there is %s", l)
	}
}

// matching gives what there is of some patterns.
func matching(t *testing.T, patterns ...string) (all []string) {
	t.Helper()
	for _, p := range patterns {
		got, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got...)
	}
	return all
}
