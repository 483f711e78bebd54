package documents_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/diapause/diapause/e2e/stack"
)

// bin is a directory with the program, as a reader has it in his PATH.
var bin string

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "diapause-documents-"); err == nil {
		defer os.RemoveAll(bin)
		_, err = stack.Build(bin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
