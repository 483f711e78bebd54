package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// image makes a core image whose thread has these registers, and other fields
// around them.
func image(ax, origAX, ip uint64) []byte {
	regs := message{{tag: 1 << 3, number: 7}, {tag: fieldAX << 3, number: ax}, {tag: fieldOrigAX << 3, number: origAX}, {tag: fieldIP << 3, number: ip}, {tag: 28 << 3, number: 1}}
	info := message{{tag: 1 << 3, number: 1 << 40}, {tag: fieldRegisters<<3 | kindBytes, bytes: regs.encode()}, {tag: 3<<3 | kind64, bytes: make([]byte, 8)}}
	core := message{{tag: 1 << 3, number: 1}, {tag: fieldThreadInfo<<3 | kindBytes, bytes: info.encode()}, {tag: 5<<3 | kindBytes, bytes: []byte("more")}, {tag: 6<<3 | kind32, bytes: make([]byte, 4)}}
	body := core.encode()
	b := binary.LittleEndian.AppendUint32([]byte("magic123"), uint32(len(body)))
	return append(b, body...)
}

const interrupted = ^uint64(3) // -EINTR

func TestRepeat(t *testing.T) {
	const ip = 0x7f0000001234
	movPoll := []byte{0xb8, poll, 0, 0, 0, 0x0f, 0x05}
	for name, c := range map[string]struct {
		ax, nr uint64
		known  uint64
		code   []byte
		want   uint64 // number of the call, or 0 for no change
	}{
		"poll":                   {interrupted, poll, 0, nil, poll},
		"nanosleep":              {interrupted, nanosleep, 0, nil, nanosleep},
		"continued poll":         {interrupted, restartSyscall, 0, movPoll, poll},
		"continued, unknown":     {interrupted, restartSyscall, 0, []byte{0x90, 7, 0, 0, 0, 0x0f, 0x05}, 0},
		"continued, unreadable":  {interrupted, restartSyscall, 0, nil, 0},
		"continued, known":       {interrupted, restartSyscall, futex, nil, futex},
		"continued, known wrong": {interrupted, restartSyscall, 1, movPoll, poll},
		"another call":           {interrupted, 0, 0, nil, 0},
		"not interrupted (read)": {5, 0, 0, nil, 0},
		"not interrupted (poll)": {1, poll, 0, nil, 0},
	} {
		got, err := repeat(image(c.ax, c.nr, ip), c.known, func(before uint64, size int) ([]byte, error) {
			if before != ip || c.code == nil {
				return nil, errors.New("unreadable")
			}
			return c.code[:size], nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var want []byte
		if c.want != 0 {
			want = image(c.want, c.nr, ip-2)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the image becomes %x, want %x", name, got, want)
		}
	}
}

// TestSleepTheRest: what a sleep had to go is its time when it is made again, if the kernel wrote it.
func TestSleepTheRest(t *testing.T) {
	const given, rest = 0x1000, 0x2000
	for name, c := range map[string]struct {
		nr             uint64
		di, si, dx, ra uint64 // ra is r10
		wantDI, wantDX uint64
	}{
		"nanosleep":                {nanosleep, given, rest, 7, 8, rest, 7},
		"nanosleep, no place":      {nanosleep, given, 0, 7, 8, given, 7},
		"clock_nanosleep":          {clockNanosleep, 1, 0, given, rest, 1, rest},
		"clock_nanosleep, none":    {clockNanosleep, 1, 0, given, 0, 1, given},
		"clock_nanosleep, a point": {clockNanosleep, 1, absolute, given, rest, 1, given},
		"poll":                     {poll, given, rest, 7, 8, given, 7},
		"futex":                    {futex, given, rest, 7, 8, given, 7},
	} {
		regs := message{{tag: fieldR10 << 3, number: c.ra}, {tag: fieldDX << 3, number: c.dx}, {tag: fieldSI << 3, number: c.si}, {tag: fieldDI << 3, number: c.di}}
		sleepTheRest(regs, c.nr)
		if di, dx, si := regs.number(fieldDI), regs.number(fieldDX), regs.number(fieldSI); di != c.wantDI || dx != c.wantDX || si != c.si {
			t.Errorf("%s: di is %#x, dx %#x, si %#x", name, di, dx, si)
		}
	}
}

func TestDamagedImages(t *testing.T) {
	whole := image(interrupted, poll, 4096)
	for n := range len(whole) {
		if _, err := repeat(whole[:n], 0, nil); err == nil {
			t.Errorf("an image cut to %d bytes is taken", n)
		}
	}
}

func TestInterrupted(t *testing.T) {
	got := Interrupted([]byte("(00.01) Warn  (compel/x.c:418): Will restore 71 with interrupted system call\nx\n(00.02) Warn  (compel/x.c:418): Will restore 8 with interrupted system call\n"))
	if len(got) != 2 || got[0] != 71 || got[1] != 8 {
		t.Errorf("Interrupted gives %v", got)
	}
}

func FuzzRepeat(f *testing.F) {
	f.Add(image(interrupted, poll, 4096))
	f.Fuzz(func(t *testing.T, b []byte) {
		// It must not panic, and what it changes must be an image again.
		got, err := repeat(b, 0, func(uint64, int) ([]byte, error) { return nil, errors.New("unreadable") })
		if err == nil && got != nil {
			if _, err := parse(got[headerSize:]); err != nil {
				t.Errorf("it made an image that can't be read: %v", err)
			}
		}
	})
}
