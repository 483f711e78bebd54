package documents_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestKeys runs the shell block of the document on keys, line by line, in an empty
// directory.
func TestKeys(t *testing.T) {
	text, err := os.ReadFile("../../services/KEYS.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := shellLines(string(text))
	if len(lines) < 8 || lines[0] != "diapause up" {
		t.Fatalf("the document shows %d commands: %q", len(lines), lines)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("DIAPAUSE_DATA", filepath.Join(t.TempDir(), "data"))
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	startUp(ctx, t)
	for _, line := range lines[1:] {
		run(ctx, t, line)
	}
}
