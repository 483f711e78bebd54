package jump

import (
	"bytes"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Disk is the disk as one process sees it: what it has synced takes as long as it is told.
type Disk struct {
	mem *os.File
	at  int64 // of how long that is: seconds, nanoseconds
}

// syscalls is what every system call of a Go program goes through, and original how it
// begins.
const (
	syscalls = "internal/runtime/syscall/linux.Syscall6"
	once     = "runtime.rt0_go" // as place
)

var original = []byte{
	0x49, 0x89, 0xf2, // mov r10, rsi
	0x48, 0x89, 0xfa, // mov rdx, rdi
	0x48, 0x89, 0xce, // mov rsi, rcx
	0x48, 0x89, 0xdf, // mov rdi, rbx
}

// wait sleeps before fsync and fdatasync for as long as stands at its end, then does what
// it has taken the place of, and goes on behind that, at the end of back.
var wait = []byte{
	0x3d, 74, 0, 0, 0, // cmp eax, fsync
	0x74, 0x07, // je to the sleep
	0x3d, 75, 0, 0, 0, // cmp eax, fdatasync
	0x75, 0x18, // jne behind it
	0x50, 0x51, 0x56, 0x57, // push rax, rcx, rsi, rdi
	0x48, 0x8d, 0x3d, 0x1f, 0, 0, 0, // lea rdi, [how long]
	0x31, 0xf6, // xor esi, esi
	0xb8, 35, 0, 0, 0, // mov eax, nanosleep
	0x0f, 0x05, // syscall
	0x5f, 0x5e, 0x59, 0x58, // pop rdi, rsi, rcx, rax
	0x49, 0x89, 0xf2, 0x48, 0x89, 0xfa, 0x48, 0x89, 0xce, 0x48, 0x89, 0xdf, // the original
	0xe9, 0, 0, 0, 0, // jmp back
	0x90,                   // to a multiple of 8
	0, 0, 0, 0, 0, 0, 0, 0, // seconds
	0, 0, 0, 0, 0, 0, 0, 0, // nanoseconds
}

const (
	slept  = 38         // where the original comes in it
	back   = slept + 17 // the end of the jump
	asLong = back + 1   // how long it sleeps
	behind = 64         // from the place: the clock's detour comes first
)

// DiskOf takes hold of what a process that runs the program syncs. It stops the process
// for a moment.
func DiskOf(program string, pid int) (*Disk, error) {
	d, err := diskOf(program, pid)
	if err != nil {
		return nil, fmt.Errorf("take hold of the disk of process %d: %w", pid, err)
	}
	return d, nil
}

func diskOf(program string, pid int) (*Disk, error) {
	calls, room, err := functions(program)
	if err != nil {
		return nil, err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	d := &Disk{mem, int64(room) + asLong}
	if err := d.lay(pid, calls, room); err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	return d, nil
}

// functions gives where system calls are made, and where there is room.
func functions(program string) (calls, room uint64, err error) {
	f, err := elf.Open(program)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	table, text := f.Section(".gopclntab"), f.Section(".text")
	if f.Type != elf.ET_EXEC || table == nil || text == nil {
		return 0, 0, fmt.Errorf("%s is no Go program at an address of its own", program)
	}
	data, err := table.Data()
	if err != nil {
		return 0, 0, err
	}
	all, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return 0, 0, err
	}
	from, to := all.LookupFunc(syscalls), all.LookupFunc(once)
	if from == nil || to == nil || to.End-to.Entry < behind+uint64(len(wait)) {
		return 0, 0, fmt.Errorf("%s of another Go: no %s, or no room at %s", program, syscalls, once)
	}
	return from.Entry, to.Entry + behind, nil
}

// lay has the system calls lead through wait.
func (d *Disk) lay(pid int, calls, room uint64) error {
	jmp := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(room-(calls+5)))
	begin := make([]byte, len(original))
	if _, err := d.mem.ReadAt(begin, int64(calls)); err != nil {
		return err
	}
	if bytes.HasPrefix(begin, jmp) {
		return nil // we have been here
	}
	if !bytes.Equal(begin, original) {
		return fmt.Errorf("%s begins with % x, want % x", syscalls, begin, original)
	}
	code := append([]byte(nil), wait...)
	binary.LittleEndian.PutUint32(code[back-4:], uint32(calls+uint64(len(original))-(room+back)))
	if _, err := d.mem.WriteAt(code, int64(room)); err != nil {
		return err
	}
	return stopped(pid, calls, calls+uint64(len(jmp)), func() error {
		_, err := d.mem.WriteAt(jmp, int64(calls))
		return err
	})
}

// stopped calls fn while the process stands still, and none of its threads between from
// and to.
func stopped(pid int, from, to uint64, fn func() error) error {
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		elsewhere, err := stand(pid, from, to)
		if err == nil && elsewhere {
			err = fn()
		}
		if err := errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)); err != nil || elsewhere {
			return err
		}
		time.Sleep(time.Millisecond) // it goes on for a bit
	}
	return errors.New("it is never elsewhere")
}

// stand reports whether all threads have stopped, and not there.
func stand(pid int, from, to uint64) (bool, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) == 0 {
		return false, fmt.Errorf("it has no threads: %w", err)
	}
	for _, task := range tasks {
		said, err := os.ReadFile(task + "/syscall")
		if err != nil {
			return false, err
		}
		words := strings.Fields(string(said)) // the last one is where it stands, if it does
		at, err := strconv.ParseUint(strings.TrimPrefix(words[len(words)-1], "0x"), 16, 64)
		if err != nil || at > from && at < to {
			return false, nil
		}
	}
	return true, nil
}

// Set has each sync take so much longer from now on.
func (d *Disk) Set(longer time.Duration) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(longer/time.Second))
	if _, err := d.mem.WriteAt(binary.LittleEndian.AppendUint64(b, uint64(longer%time.Second)), d.at); err != nil {
		return fmt.Errorf("slow the disk down: %w", err)
	}
	return nil
}

// Close leaves the disk as it is.
func (d *Disk) Close() error { return d.mem.Close() }
