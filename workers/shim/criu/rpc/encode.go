package rpc

import (
	"encoding/binary"
	"errors"
)

// Options are the fields of criu_opts that Diapause sets; the comments give
// their names in criu's rpc.proto where those differ.
type Options struct {
	ImagesDir      string
	PID            int // dump: the root of the tree
	LogLevel       int
	LogFile        string
	Root           string
	LeaveRunning   bool
	TCPEstablished bool
	TCPClose       bool
	ShellJob       bool
	FileLocks      bool
	LinkRemap      bool
	GhostLimit     uint32 // bytes
	FreezeCgroup   string
	RestoreSibling bool // rst_sibling
	EmptyNetwork   bool // empty_ns with CLONE_NEWNET
	External       []string
	IrmapScanPaths []string    // where criu looks for what inotify watches and it has no handle of
	Inherit        []Inherited // inherit_fd
	Timeout        uint32      // seconds to wait for the freezer
}

// Inherited is a descriptor, by its number in criu, that stands for what had
// the key ("pipe:[12]", "tty[8800:1c]") when the session was dumped.
type Inherited struct {
	Key string
	FD  int
}

// The types of requests and responses.
const (
	typeDump    = 1
	typeRestore = 2
	typeNotify  = 6
)

const (
	cgroupsIgnore   = 0
	networkLockSkip = 3
	cloneNewNet     = 0x40000000
)

type message []byte

func (m *message) number(field int, v uint64) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3)
	*m = binary.AppendUvarint(*m, v)
}

func (m *message) flag(field int, v bool) {
	if v {
		m.number(field, 1)
	}
}

func (m *message) bytes(field int, v []byte) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|2)
	*m = binary.AppendUvarint(*m, uint64(len(v)))
	*m = append(*m, v...)
}

func (m *message) text(field int, v string) {
	if v != "" {
		m.bytes(field, []byte(v))
	}
}

func (o Options) encode() []byte {
	var m message
	m.number(1, ^uint64(0)) // images_dir_fd -1: by path
	m.text(68, o.ImagesDir)
	if o.PID != 0 {
		m.number(2, uint64(o.PID))
	}
	m.number(9, uint64(o.LogLevel))
	m.text(10, o.LogFile)
	m.text(13, o.Root)
	m.flag(3, o.LeaveRunning)
	m.flag(5, o.TCPEstablished)
	m.flag(52, o.TCPClose)
	m.flag(46, true) // tcp_skip_in_flight: connections that aren't accepted yet
	m.flag(7, o.ShellJob)
	m.flag(8, o.FileLocks)
	m.flag(18, o.LinkRemap)
	m.flag(12, true) // notify_scripts
	m.flag(26, o.RestoreSibling)
	if o.GhostLimit != 0 {
		m.number(35, uint64(o.GhostLimit))
	}
	m.text(44, o.FreezeCgroup)
	if o.Timeout != 0 {
		m.number(45, uint64(o.Timeout))
	}
	m.number(34, cgroupsIgnore)
	m.number(64, networkLockSkip)
	if o.EmptyNetwork {
		m.number(38, cloneNewNet)
	}
	for _, e := range o.External {
		m.text(37, e)
	}
	for _, path := range o.IrmapScanPaths {
		m.text(36, path)
	}
	for _, in := range o.Inherit {
		var fd message
		fd.text(1, in.Key)
		fd.number(2, uint64(in.FD))
		m.bytes(27, fd)
	}
	return m
}

func encodeRequest(kind int, o Options) []byte {
	var m message
	m.number(1, uint64(kind))
	m.bytes(2, o.encode())
	return m
}

func encodeNotifyReply(ok bool) []byte {
	var m message
	m.number(1, typeNotify)
	v := uint64(0)
	if ok {
		v = 1
	}
	m.number(3, v)
	return m
}

// response is what criu answers: to a notification, or at the end.
type response struct {
	kind    int
	success bool
	script  string // of a notification: its name
	pid     int    // of the restored root, or of a notification
	errno   int
	errmsg  string
}

var errWire = errors.New("criu's answer can't be decoded")

// fields calls f for each field of a message: v is set for numbers, b for
// everything with a length.
func fields(m []byte, f func(field int, v uint64, b []byte) error) error {
	for len(m) > 0 {
		tag, n := binary.Uvarint(m)
		if n <= 0 {
			return errWire
		}
		m = m[n:]
		v, n := binary.Uvarint(m)
		if n <= 0 {
			return errWire
		}
		m = m[n:]
		var b []byte
		switch tag & 7 {
		case 0:
		case 2:
			if v > uint64(len(m)) {
				return errWire
			}
			b, m = m[:v], m[v:]
		default:
			return errWire
		}
		if err := f(int(tag>>3), v, b); err != nil {
			return err
		}
	}
	return nil
}

func decodeResponse(m []byte) (response, error) {
	var r response
	err := fields(m, func(field int, v uint64, b []byte) error {
		switch field {
		case 1:
			r.kind = int(v)
		case 2:
			r.success = v != 0
		case 4: // restore
			return fields(b, func(field int, v uint64, _ []byte) error {
				if field == 1 {
					r.pid = int(int32(v))
				}
				return nil
			})
		case 5: // notify
			return fields(b, func(field int, v uint64, b []byte) error {
				switch field {
				case 1:
					r.script = string(b)
				case 2:
					r.pid = int(int32(v))
				}
				return nil
			})
		case 7:
			r.errno = int(int32(v))
		case 9:
			r.errmsg = string(b)
		}
		return nil
	})
	return r, err
}
