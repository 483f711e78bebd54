package jump

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
)

// Known says whether this machine's instructions are known here.
const Known = true

// Clock is the wall clock of one process.
type Clock struct {
	mem *os.File
	at  int64 // of what is added, in seconds
}

// detour calls the clock_gettime whose address stands in it, at entry, and adds what
// stands behind it, at added, to the seconds of CLOCK_REALTIME.
var detour = []byte{
	0x57,                   // push rdi
	0x56,                   // push rsi
	0x48, 0x83, 0xec, 0x08, // sub rsp, 8
	0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, // mov rax, entry
	0xff, 0xd0, // call rax
	0x48, 0x83, 0xc4, 0x08, // add rsp, 8
	0x5e,       // pop rsi
	0x5f,       // pop rdi
	0x85, 0xff, // test edi, edi
	0x75, 0x0a, // jnz the end
	0x48, 0x8b, 0x0d, 5, 0, 0, 0, // mov rcx, [added]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
	0x90,
	0, 0, 0, 0, 0, 0, 0, 0,
}

const (
	entry = 8
	added = 40
)

// The symbols: where the runtime keeps the address of clock_gettime, and code that runs
// only once, at the start, so that its place can be had.
const (
	pointer = "runtime.vdsoClockgettimeSym"
	place   = "runtime.rt0_go.abi0"
)

// Of takes hold of the clock of a process that runs the program, which isn't stripped.
func Of(program string, pid int) (*Clock, error) {
	c, err := of(program, pid)
	if err != nil {
		return nil, fmt.Errorf("take hold of the clock of process %d: %w", pid, err)
	}
	return c, nil
}

func of(program string, pid int) (*Clock, error) {
	symbols, err := find(program)
	if err != nil {
		return nil, err
	}
	to := symbols[place]
	if to.Size < uint64(len(detour)) || to.Value%8 != 0 {
		return nil, fmt.Errorf("%s has %d bytes at %#x: that won't do", place, to.Size, to.Value)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	c := &Clock{mem, int64(to.Value) + added}
	code := append([]byte(nil), detour...)
	word := make([]byte, 8)
	if _, err = mem.ReadAt(word, int64(symbols[pointer].Value)); err == nil {
		copy(code[entry:], word)
		switch binary.LittleEndian.Uint64(word) {
		case 0:
			err = errors.New("it doesn't use the vDSO")
		case to.Value:
			return c, nil // we have been here
		}
	}
	if err == nil {
		_, err = mem.WriteAt(code, int64(to.Value))
	}
	if err == nil {
		_, err = mem.WriteAt(binary.LittleEndian.AppendUint64(nil, to.Value), int64(symbols[pointer].Value))
	}
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	return c, nil
}

func find(program string) (map[string]elf.Symbol, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC {
		return nil, fmt.Errorf("%s may be loaded anywhere: it has to be built without -buildmode=pie", program)
	}
	all, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("read the symbols of %s: %w", program, err)
	}
	found := map[string]elf.Symbol{}
	for _, s := range all {
		if s.Name == pointer || s.Name == place {
			found[s.Name] = s
		}
	}
	if len(found) != 2 {
		return nil, fmt.Errorf("%s has no %s or no %s: is it of another Go?", program, pointer, place)
	}
	return found, nil
}

// Set has the clock be ahead of the machine's, or behind it, from now on, by whole
// seconds.
func (c *Clock) Set(ahead time.Duration) error {
	_, err := c.mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(int64(ahead/time.Second))), c.at)
	if err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}

// Close leaves the clock as it is.
func (c *Clock) Close() error { return c.mem.Close() }
