package core

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// state makes the image of a thread that gets a signal when its parent ends, if that isn't 0.
func state(signal uint64) []byte {
	thread := message{{tag: 1 << 3, number: 7}, {tag: 13<<3 | kindBytes, bytes: []byte("name")}}
	if signal != 0 {
		thread = append(thread, field{tag: fieldParent << 3, number: signal})
	}
	m := message{{tag: 1 << 3, number: 1}, {tag: fieldThreadCore<<3 | kindBytes, bytes: thread.encode()}, {tag: 7<<3 | kind32, bytes: make([]byte, 4)}}
	body := m.encode()
	return append(binary.LittleEndian.AppendUint32([]byte("magic123"), uint32(len(body))), body...)
}

func TestSetParentDeathSignal(t *testing.T) {
	for _, before := range []uint64{0, 15, 9} {
		for _, after := range []unix.Signal{0, unix.SIGKILL} {
			if got, err := SetParentDeathSignal(state(before), after); err != nil || !bytes.Equal(got, state(uint64(after))) {
				t.Errorf("from %d to %d: % x, %v", before, after, got, err)
			}
		}
	}
	whole := state(9)
	for n := range len(whole) {
		if _, err := SetParentDeathSignal(whole[:n], 9); err == nil {
			t.Errorf("an image cut to %d bytes is taken", n)
		}
	}
	if _, err := SetParentDeathSignal(image(interrupted, poll, 4096)[:headerSize], 9); err == nil {
		t.Error("an image without a thread is taken")
	}
}

// Another name of the file, which a rehearsal may have, keeps what it was.
func TestEndWithParent(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "core-1.img"), filepath.Join(dir, "other")
	if err := os.WriteFile(path, state(0), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	if err := EndWithParent(dir, 1); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{path: state(9), other: state(0)} {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is % x, %v", name, got, err)
		}
	}
	if err := EndWithParent(dir, 2); err == nil {
		t.Error("a process that isn't there is taken")
	}
}

func FuzzSetParentDeathSignal(f *testing.F) {
	f.Add(state(9))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := SetParentDeathSignal(b, 9)
		if err == nil {
			if again, err := SetParentDeathSignal(got, 9); err != nil || !bytes.Equal(again, got) {
				t.Errorf("it made an image that can't be read: %v", err)
			}
		}
	})
}
