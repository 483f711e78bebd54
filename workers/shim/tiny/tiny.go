// Package tiny makes the programs of a session that are not Go: Init, its
// first process, two hundred bytes that let the leader run, reap what ends,
// report it, and end with the leader; Enter, which brings one more process
// in; and Own, by which criu is started to restore it. Init is part of the session's image, so it must be small, need no library
// and never change between hosts; nothing else belongs in it.
//
// Each program has its source in an .s.txt, what the assembler makes of that in a .bin
// (a test does it again and compares), and gets a header from elf.
package tiny

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"runtime"
)

//go:embed init_amd64.bin
var initCode []byte

//go:embed enter_amd64.bin
var enterCode []byte

//go:embed own_amd64.bin
var ownCode []byte

const (
	headerSize  = 64 + 56 // of the file, of its one segment
	loadAddress = 0x400000
)

// StatusFD is the descriptor to which Init writes a Status for each
// process it reaps.
const StatusFD = 3

// Status tells of one process that ended: its pid within the session, and its
// status as wait gives it.
type Status struct {
	PID  int32
	Wait uint32
}

// StatusSize is the length of one Status on the pipe, in bytes. Writes are
// atomic, so a reader never sees half of one at the end.
const StatusSize = 8

// DecodeStatus reads one Status from the StatusSize bytes of b.
func DecodeStatus(b []byte) Status {
	return Status{
		PID:  int32(binary.NativeEndian.Uint32(b)),
		Wait: binary.NativeEndian.Uint32(b[4:]),
	}
}

// Init returns the first process of a session as an executable file. Its argument
// is the pid of the leader in decimal. It is an error on machines that there is
// no code for.
func Init() ([]byte, error) { return elf(initCode) }

// EnterFD is the descriptor on which Enter gets a pidfd of a process of the
// session.
const EnterFD = 4

// Enter returns the program that enters a session and executes another one
// there: its arguments are a mask of capabilities as EnterMask writes it, the
// path of the program and its arguments, argv[0] first. It begins when it has read
// what EnterFilter gives from its standard input.
func Enter() ([]byte, error) { return elf(enterCode) }

// filterInstruction is the size of the kernel's sock_filter, in bytes.
const filterInstruction = 8

// EnterFilter writes a filter of system calls for Enter, and whether the program gets
// no_new_privs. No filter is an empty one.
func EnterFilter(filter []byte, noNewPrivs bool) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(len(filter)/filterInstruction))
	flags := uint32(0)
	if noNewPrivs {
		flags = 1
	}
	return append(binary.NativeEndian.AppendUint32(b, flags), filter...)
}

// Own returns the program that makes a session keyring and a cgroup namespace and then executes
// another one there: its arguments are the path of that and its arguments, argv[0] left out.
func Own() ([]byte, error) { return elf(ownCode) }

// EnterMask writes a mask of capabilities for Enter.
func EnterMask(mask uint64) string { return fmt.Sprintf("%016x", mask) }

func elf(code []byte) ([]byte, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("sessions run on linux/amd64 only so far, this is %s", runtime.GOARCH)
	}
	var b bytes.Buffer
	b.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	size := uint64(headerSize + len(code))
	for _, v := range []any{
		uint16(2), uint16(62), uint32(1), // executable, x86-64, version
		uint64(loadAddress + headerSize), uint64(64), uint64(0), // entry, segments, sections
		uint32(0), uint16(64), uint16(56), uint16(1), uint16(64), uint16(0), uint16(0),
		uint32(1), uint32(5), // load, readable and executable
		uint64(0), uint64(loadAddress), uint64(loadAddress), size, size, uint64(0x1000),
	} {
		// A buffer takes every write.
		_ = binary.Write(&b, binary.LittleEndian, v)
	}
	b.Write(code)
	return b.Bytes(), nil
}
