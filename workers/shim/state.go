package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// stateFile is the session's State, in memory and in its file in the run directory,
// and the fence that its epoch is.
type stateFile struct {
	path string

	mu    sync.Mutex
	state State
}

func newStateFile(s Setup) *stateFile {
	return &stateFile{
		path:  filepath.Join(s.Run, StateFile(s.UID)),
		state: State{UID: s.UID, Name: s.Name, Epoch: s.Epoch, Boot: s.Boot, Shim: os.Getpid(), Machine: MachineBoot()},
	}
}

// fence notes the epoch of an order, or refuses it.
func (f *stateFile) fence(epoch uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if epoch < f.state.Epoch {
		return driver.ErrStale
	}
	if epoch > f.state.Epoch {
		f.state.Epoch = epoch
		return f.write()
	}
	return nil
}

// begin writes down that the session runs, before it does.
func (f *stateFile) begin(pid int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Started, f.state.PID = time.Now(), pid
	return f.write()
}

// end writes down how the session ended. lost says that it didn't end by itself.
func (f *stateFile) end(exit schemas.ExitStatus, lost bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Exit, f.state.PID = &exit, 0
	f.state.Lost = f.state.Lost || lost
	return f.write()
}

// remove removes the file of a session that has never run.
func (f *stateFile) remove() error { return os.Remove(f.path) }

func (f *stateFile) read() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// write is called with mu held. It returns when the state would outlive a
// crash of the host: without a state the session has never run, with one it may
// have.
func (f *stateFile) write() error {
	b, err := json.Marshal(f.state)
	if err != nil {
		return fmt.Errorf("encode the session's state: %w", err)
	}
	b = append(b, bytes.Repeat([]byte(" "), max(stateSize-len(b), 0))...)
	err = replaceSynced(f.path, b)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		_ = os.Remove(f.path + ".new") // what is left of it the next one replaces
		if overErr := overwriteSynced(f.path, b); !errors.Is(overErr, fs.ErrNotExist) {
			err = overErr
		}
	}
	if err != nil {
		return fmt.Errorf("write the session's state: %w", err)
	}
	return nil
}

// stateSize is that of a state's file in bytes, one sector of a disk: on a full one the next
// state is written over the last.
const stateSize = 512

func overwriteSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() != int64(len(content)) {
		err = fmt.Errorf("its size is %d, want %d: %w", st.Size(), len(content), unix.ENOSPC)
	}
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func replaceSynced(path string, content []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
