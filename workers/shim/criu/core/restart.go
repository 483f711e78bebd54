package core

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

var line = regexp.MustCompile(`Will restore (\d+) with interrupted system call`)

// Interrupted lists the threads, by their host's ids, that criu's log names.
func Interrupted(log []byte) []int {
	var all []int
	for _, m := range line.FindAllSubmatch(log, -1) {
		if tid, err := strconv.Atoi(string(m[1])); err == nil {
			all = append(all, tid)
		}
	}
	return all
}

// The system calls that are continued in this way, and the one that continues.
const (
	poll           = 7
	nanosleep      = 35
	futex          = 202
	clockNanosleep = 230
	restartSyscall = Syscall
)

// Syscall is the number that a thread's call has while the kernel continues it.
const Syscall = 219

func waits(nr uint64) bool {
	return nr == poll || nr == nanosleep || nr == futex || nr == clockNanosleep
}

// The fields of criu's messages, as its .proto files have them.
const (
	fieldThreadInfo = 2 // of core_entry, on x86
	fieldRegisters  = 2 // of thread_info_x86
	fieldR10        = 8
	fieldAX         = 11
	fieldDX         = 13
	fieldSI         = 14
	fieldDI         = 15
	fieldOrigAX     = 16
	fieldIP         = 17
)

const (
	eintr       = -4
	syscallSize = 2 // bytes of the instruction
)

// Again makes the thread, tid within the session, repeat its call. known is the number that the
// call had before the kernel continued it, or 0; code reads the session's memory just before
// an address.
func Again(images string, tid int, known uint64, code func(before uint64, size int) ([]byte, error)) error {
	path := filepath.Join(images, fmt.Sprintf("core-%d.img", tid))
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the state of thread %d: %w", tid, err)
	}
	changed, err := repeat(b, known, code)
	if err != nil {
		return fmt.Errorf("change the state of thread %d: %w", tid, err)
	}
	if changed == nil {
		return nil
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		return fmt.Errorf("change the state of thread %d: %w", tid, err)
	}
	return nil
}

func repeat(file []byte, known uint64, code func(uint64, int) ([]byte, error)) ([]byte, error) {
	core, err := parseFile(file)
	if err != nil {
		return nil, err
	}
	info, err := core.sub(fieldThreadInfo)
	if err != nil {
		return nil, err
	}
	regs, err := info.sub(fieldRegisters)
	if err != nil {
		return nil, err
	}
	nr, ip := regs.number(fieldOrigAX), regs.number(fieldIP)
	if int64(regs.number(fieldAX)) != eintr {
		return nil, nil
	}
	if nr == restartSyscall {
		if nr = known; !waits(known) {
			nr = called(ip, code)
		}
	}
	if !waits(nr) {
		return nil, nil
	}
	regs.setNumber(fieldAX, nr)
	regs.setNumber(fieldIP, ip-syscallSize)
	sleepTheRest(regs, nr)
	info.setSub(fieldRegisters, regs)
	core.setSub(fieldThreadInfo, info)
	return encodeFile(file, core), nil
}

// absolute is the flag of clock_nanosleep by which its time is a point in time (TIMER_ABSTIME).
const absolute = 1

// sleepTheRest has a thread that slept sleep for what is left: the kernel has written that, when it
// stopped the thread, to where the caller wants to know it after a signal.
func sleepTheRest(regs message, nr uint64) {
	time, rest := uint64(fieldDI), regs.number(fieldSI)
	if nr == clockNanosleep {
		time, rest = fieldDX, regs.number(fieldR10)
		if regs.number(fieldSI)&absolute != 0 {
			return
		}
	} else if nr != nanosleep {
		return
	}
	if rest != 0 {
		regs.setNumber(time, rest)
	}
}

// called finds which call a thread made that has been continued before, when its
// number is gone from the registers: by the instruction that loaded it, "mov
// eax, number", if that stands right before the call.
func called(ip uint64, code func(uint64, int) ([]byte, error)) uint64 {
	const size = 5 + syscallSize
	b, err := code(ip, size)
	if err != nil || len(b) != size || b[0] != 0xb8 || b[5] != 0x0f || b[6] != 0x05 {
		return restartSyscall
	}
	return uint64(binary.LittleEndian.Uint32(b[1:]))
}
