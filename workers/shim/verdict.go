package shim

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
)

// verdict is what a line of criu's log tells about trying again.
type verdict struct {
	kind driver.Kind
	code string // where in criu's source it failed, and with which errno
}

// judge gives the verdict of the first error in criu's log: Refused if the errno is one
// that the same image gives again.
func judge(errors []criuError) verdict {
	if len(errors) == 0 {
		return verdict{kind: driver.Transient}
	}
	first := errors[0]
	v := verdict{kind: driver.Transient, code: first.at}
	if no, ok := errnoOf(first.text); ok {
		v.code += " " + unix.ErrnoName(no)
		if slices.Contains(lasting, no) {
			v.kind = driver.Refused
		}
	}
	return v
}

// lasting are the errnos that don't pass: what is asked isn't there, isn't allowed, or isn't
// known to this kernel or criu.
var lasting = []unix.Errno{
	unix.ENOENT, unix.ENXIO, unix.ENODEV, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG,
	unix.EPERM, unix.EACCES, unix.EROFS,
	unix.EINVAL, unix.ENOSYS, unix.ENOTTY, unix.EOPNOTSUPP, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.ENOPROTOOPT, unix.EPIPE, unix.EBADF,
}

// errnoOf reads the errno at the end of one of criu's lines: it is written as libc says it.
func errnoOf(line string) (unix.Errno, bool) {
	i := strings.LastIndex(line, ": ")
	if i < 0 {
		return 0, false
	}
	no, ok := errnos[strings.ToLower(strings.TrimSpace(line[i+2:]))]
	return no, ok
}

// errnos are all errnos by their texts, which are libc's in lower case.
var errnos = func() map[string]unix.Errno {
	all := map[string]unix.Errno{}
	for no := unix.Errno(1); no < 134; no++ {
		if _, there := all[no.Error()]; !there {
			all[no.Error()] = no
		}
	}
	return all
}()

// criuError is one error in criu's log.
type criuError struct {
	at   string // file and line of criu's source
	text string
}

var errorLine = regexp.MustCompile(`^(?:\(\d+\.\d+\)\s*)?(?:pie:\s*)?(?:\s*\d+:\s*)?Error \(([^)]*)\):\s*(.*)`)
