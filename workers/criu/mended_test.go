package criu

import (
	"embed"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

//go:embed testdata/mended
var mended embed.FS

// TestMended has programs check themselves after three suspends and resumes. Each has what
// CRIU as it is released loses or can't restore, and a patch in patches is for.
func TestMended(t *testing.T) {
	t.Parallel()
	files, err := mended.ReadDir("testdata/mended")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".py")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, err := mended.ReadFile(path.Join("testdata/mended", f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			s := begin(t, open(t, t.TempDir()), name, schemas.Spec{Command: []string{"/usr/bin/python3", "-c", string(program)}, TTY: name == "terminal"})
			s.want("ready")
			for range 3 {
				s.cycle()
			}
			s.sh("echo > /tmp/check")
			out := waitFor(t, s.d, s.uid, "answering", func(out string) bool {
				_, answer, ok := strings.Cut(out, "answer: ")
				return ok && strings.Contains(answer, "\n")
			})
			if !strings.Contains(out, "answer: ok") {
				t.Errorf("it says %q; the criu of this test lacks %v", out, Missing(commandOf(t)))
			}
		})
	}
}

func commandOf(t *testing.T) []string {
	t.Helper()
	command, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return command
}

func TestMissing(t *testing.T) {
	if lacks := Missing(commandOf(t)); len(lacks) > 0 {
		t.Errorf("the CRIU of these tests lacks %v: run workers/criu/install/build.sh", lacks)
	}
	lacks := Missing([]string{"/no/such/ld.so", "/no/such/criu"})
	if !slices.Equal(lacks, Mends) {
		t.Errorf("a CRIU that says nothing lacks %v, want %v", lacks, Mends)
	}
}
