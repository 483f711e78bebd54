package criu

import (
	"embed"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

//go:embed testdata/programs
var programs embed.FS

// prelude is before each program: ready returns when the session has been suspended and resumed,
// and answer says what isn't as it was. It takes a list whose entries are true or a text.
const prelude = `
import os, signal
os.mkfifo("/tmp/check")
def ready():
    print("ready", flush=True)
    open("/tmp/check").read()
def answer(findings):
    wrong = [str(f) for f in findings if f is not True and not (isinstance(f, int) and f)]
    print("answer: " + (", ".join(wrong) or "ok"), flush=True)
    while True:
        signal.pause()
`

// cycles is how often each program is suspended and resumed: some defects show the second time.
const cycles = 3

// TestPrograms has programs check themselves after suspends and resumes: one for each kind of
// thing that the kernel keeps for a process. Some have what CRIU as it is released loses or
// can't restore, and a patch in patches is for.
func TestPrograms(t *testing.T) {
	t.Parallel()
	files, err := programs.ReadDir("testdata/programs")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".py")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, err := programs.ReadFile(path.Join("testdata/programs", f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			s := begin(t, open(t, t.TempDir()), name, schemas.Spec{
				Command: []string{"/usr/bin/python3", "-c", prelude + string(program)}, TTY: name == "terminal",
			})
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("its output: %q", output(t, s.d, s.uid))
				}
			})
			s.want("ready")
			for range cycles {
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
