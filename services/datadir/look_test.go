package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLookChangesNothing(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	s, err := Look(none)
	if err != nil || s.Exists || !s.Fresh || s.Up != nil {
		t.Errorf("look where nothing is: %+v, %v", s, err)
	}
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Errorf("looking made the directory (%v)", err)
	}
	empty := t.TempDir()
	if err := os.Chmod(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	if s, err = Look(empty); err != nil || !s.Exists || !s.Fresh {
		t.Errorf("look at an empty directory: %+v, %v", s, err)
	}
	if info, err := os.Stat(empty); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("looking changed the mode to %v (%v)", info.Mode(), err)
	}
	used := initialised(t)
	before := contents(t, used)
	s, err = Look(used)
	if err != nil || s.Fresh || s.Host == "" || s.Up != nil {
		t.Errorf("look at a data directory: %+v, %v", s, err)
	}
	if _, _, err := s.CheckKeys(); err != nil {
		t.Errorf("its keys: %v", err)
	}
	if after := contents(t, used); after != before {
		t.Errorf("looking changed the directory:\n%s\nbefore:\n%s", after, before)
	}
}

func TestLookSeesWhoUsesIt(t *testing.T) {
	path := initialised(t)
	h := startHolder(t, path)
	s, err := Look(path)
	if err != nil || s.Up == nil || s.Up.PID != h.Process.Pid || s.Up.URL == "" {
		t.Errorf("look at a directory in use: %+v, %v", s.Up, err)
	}
}

func TestLookRefusesWhatOpenRefuses(t *testing.T) {
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Look(foreign)
	wantRefusal(t, err, ErrForeign, foreign)
	newer := initialised(t)
	if err := os.WriteFile(filepath.Join(newer, versionFile), []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Look(newer)
	wantRefusal(t, err, ErrNewer, "version 7")
	open := initialised(t)
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = Look(open)
	wantRefusal(t, err, ErrAccess, "0755")
	keyless := initialised(t)
	if err := os.Remove(filepath.Join(keyless, keysDir, signingFile)); err != nil {
		t.Fatal(err)
	}
	s, err := Look(keyless)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.CheckKeys()
	wantRefusal(t, err, ErrKeyMissing, signingFile)
}
