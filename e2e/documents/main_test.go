package documents_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bin is a directory with the program, as a reader has it in his PATH.
var bin string

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "diapause-documents-"); err == nil {
		defer os.RemoveAll(bin)
		var out []byte
		if out, err = exec.Command("go", "build", "-o", filepath.Join(bin, "diapause"), "../../services/cmd/diapause").CombinedOutput(); err != nil {
			err = fmt.Errorf("build the program: %w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
