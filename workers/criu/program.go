package criu

import (
	"bytes"
	"fmt"
	"os"

	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/shim/embedded"
)

// program is what runs as the shim.
type program struct {
	path string
	args []string // its name and what precedes the words of a stage
	file *os.File // in memory, where path leads; nil if it is this program
}

// openProgram chooses the command line that the options name, or else the shim's own
// program, or this one where that isn't embedded. It is in memory once for all
// sessions, whose shims keep it when this process ends.
func openProgram(self []string) (*program, error) {
	if len(self) > 0 {
		return &program{path: self[0], args: self}, nil
	}
	code := embedded.Program()
	if code == nil {
		return &program{path: "/proc/self/exe", args: []string{"/proc/self/exe", "shim"}}, nil
	}
	f, err := shim.Sealed(bytes.NewReader(code))
	if err != nil {
		return nil, fmt.Errorf("place the shim's program in memory: %w", err)
	}
	// Not below /proc/self: while a child is made, its descriptors change places.
	path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
	return &program{path: path, args: []string{shim.ProgramName}, file: f}, nil
}

func (p *program) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
