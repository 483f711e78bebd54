package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/diapause/diapause/schemas"
)

// State is what lies at the path of a data directory.
type State struct {
	Path   string
	Exists bool           // something is there
	Fresh  bool           // it is empty, or its first start was cut short
	Host   schemas.HostID // "" if Fresh
	Up     *Up            // who has it open, if anybody; without a URL while it starts
}

// Look says what Open would find at path, and makes and changes nothing. Its
// errors are those that Open would give, except that a directory which is in use
// is no error.
func Look(path string) (State, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return State{}, fmt.Errorf("look at data directory: %w", err)
	}
	s := State{Path: path}
	if err := s.look(); err != nil {
		return s, fmt.Errorf("data directory %s: %w", path, err)
	}
	return s, nil
}

func (s *State) look() error {
	if _, err := os.Stat(s.Path); errors.Is(err, fs.ErrNotExist) {
		s.Fresh = true
		return nil
	}
	s.Exists = true
	var err error
	if s.Fresh, err = examine(s.Path); err != nil {
		return err
	}
	if !s.Fresh { // Open closes a fresh one to others itself
		if err := checkAccess(s.Path, false); err != nil {
			return err
		}
		if s.Host, err = readHost(s.Path); err != nil {
			return err
		}
	}
	holder, held, err := lockHolder(s.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if held {
		s.Up = &holder
	}
	return nil
}

// CheckKeys reads the directory's own keys as `diapause up` would, and names
// their files. Errors: as of Keys.
func (s State) CheckKeys() (identityFile, signingFile string, err error) {
	k, err := (&Dir{path: s.Path}).Keys(nil, nil)
	if err != nil {
		return "", "", err
	}
	return k.IdentityFile, k.SigningFile, nil
}
