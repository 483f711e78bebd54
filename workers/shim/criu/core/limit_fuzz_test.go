package core

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/diapause/diapause/workers/confine/limits"
)

// FuzzLimit changes images that may be damaged or forged. What can't be decoded is refused; else no
// thread has a capability beyond the limits, and to limit it again changes nothing.
func FuzzLimit(f *testing.F) {
	header := make([]byte, headerSize)
	creds := message{numberField(1, 1000)}
	for id := uint64(credsFirstCap); id <= credsLastCap; id++ {
		creds = append(creds, numberField(id, 0xffffffff), numberField(id, 0x1ff))
	}
	thread := func(mode, filter uint64) []byte {
		part := message{bytesField(threadCreds, creds.encode()), numberField(threadMode, mode), numberField(threadFilter, filter)}
		return encodeFile(header, message{numberField(1, 3), bytesField(coreThread, part.encode())})
	}
	tree := encodeFiles(header, []message{{numberField(pstreePID, 1), numberField(pstreeThreads, 1)}, {numberField(pstreePID, 2), numberField(pstreeThreads, 2), numberField(pstreeThreads, 3)}})
	one := message{bytesField(filterCode, []byte("12345678")), numberField(filterFlags, 1)}
	filters := encodeFile(header, message{bytesField(entryFilters, one.encode())})
	f.Add(tree, thread(modeNone, 0), thread(modeFilter, 0), filters, uint64(0x5fb), []byte("abcdefgh"))
	f.Add(tree, thread(modeFilter, 7), thread(modeNone, 0), filters, uint64(0), []byte{})
	f.Add([]byte{}, []byte{}, []byte{}, []byte{}, ^uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, tree, one, other, filters []byte, capabilities uint64, filter []byte) {
		dir := t.TempDir()
		err := errors.Join(writeImage(dir, "pstree.img", tree), writeImage(dir, filtersName, filters),
			writeImage(dir, "core-1.img", one), writeImage(dir, "core-2.img", other), writeImage(dir, "core-3.img", one))
		if err != nil {
			t.Fatal(err)
		}
		to := limits.Limits{Capabilities: capabilities, Filter: filter}
		if Limit(dir, to, "") != nil {
			return
		}
		first := readImages(t, dir)
		if err := Limit(dir, to, to.Digest()); err != nil {
			t.Fatalf("what was limited can't be again: %v", err)
		}
		for name, b := range readImages(t, dir) {
			if !bytes.Equal(b, first[name]) {
				t.Errorf("%s is another one when it is limited again", name)
			}
		}
		processes, err := parseFiles(tree)
		if err != nil {
			t.Fatalf("a tree that can't be decoded was taken: %v", err)
		}
		l := &limiter{dir: dir}
		for _, p := range processes {
			for _, field := range p {
				if field.id() != pstreeThreads {
					continue
				}
				if th, err := l.open(field.number); err != nil || th != nil && beyond(t, th, capabilities) {
					t.Errorf("thread %d has more than its limits, %v", field.number, err)
				}
			}
		}
	})
}

// beyond reports whether a thread has a capability that isn't among some.
func beyond(t *testing.T, th *thread, capabilities uint64) bool {
	t.Helper()
	creds, err := th.part.sub(threadCreds)
	if err != nil {
		t.Fatal(err)
	}
	words := map[uint64]int{}
	for _, f := range creds {
		if f.id() < credsFirstCap || f.id() > credsLastCap && f.id() != credsAmbient {
			continue
		}
		if f.number&^(capabilities>>(32*words[f.id()])) != 0 {
			return true
		}
		words[f.id()]++
	}
	return false
}

func writeImage(dir, name string, b []byte) error {
	return os.WriteFile(filepath.Join(dir, name), b, 0o600)
}

func readImages(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		all[e.Name()], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
