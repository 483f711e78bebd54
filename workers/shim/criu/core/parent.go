package core

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The fields of a process's state that say which signal it gets when its parent ends, as
// criu's core.proto has them.
const (
	fieldThreadCore = 5 // of core_entry
	fieldParent     = 8 // of thread_core_entry
)

// EndWithParent makes a process, pid within the session, get SIGKILL when the thread that
// its restore makes its parent ends. It replaces the file of the image, which may have other
// names.
func EndWithParent(images string, pid int) error {
	path := filepath.Join(images, fmt.Sprintf("core-%d.img", pid))
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the state of process %d: %w", pid, err)
	}
	b, err = SetParentDeathSignal(b, unix.SIGKILL)
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("change the state of process %d: %w", pid, err)
	}
	return nil
}

// SetParentDeathSignal gives the image of a thread with another signal that it gets when its
// parent ends, or none.
func SetParentDeathSignal(file []byte, s unix.Signal) ([]byte, error) {
	state, err := parseFile(file)
	if err != nil {
		return nil, err
	}
	thread, err := state.sub(fieldThreadCore)
	if err != nil {
		return nil, err
	}
	kept := thread[:0:0]
	for _, f := range thread {
		if f.id() == fieldParent && f.kind() != kindVarint {
			return nil, errors.New("the signal of the parent's end isn't a number")
		}
		if f.id() != fieldParent {
			kept = append(kept, f)
		}
	}
	if s != 0 {
		kept = append(kept, field{tag: fieldParent << 3, number: uint64(s)})
	}
	state.setSub(fieldThreadCore, kept)
	return encodeFile(file, state), nil
}
