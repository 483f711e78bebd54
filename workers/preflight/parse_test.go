package preflight

import (
	"encoding/binary"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseStatus(t *testing.T) {
	const text = "Name:\tmy prog\nState:\tZ (zombie)\nPid:\t1234\nTracerPid:\t0\nUid:\t1000\t1000\t1000\t1000\nThreads:\t3\nNSpid:\t1234\t56\t7\nGroups:\t \n"
	var p Process
	if err := p.parseStatus(text); err != nil {
		t.Fatal(err)
	}
	if want := (Process{Comm: "my prog", State: 'Z', User: 1000, Threads: 3, Inside: 7}); !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, want %+v", p, want)
	}
	if err := p.parseStatus("Threads:\tmany\n"); err == nil {
		t.Error("a number that is none was accepted")
	}
}

func TestParseInfo(t *testing.T) {
	f := File{TTY: -1}
	f.parseInfo("pos:\t0\nflags:\t0100002\nmnt_id:\t24\nino:\t3\ntty-index:\t4\nlock:\t1: FLOCK  ADVISORY  WRITE 1 00:29:12 0 EOF\n")
	if f.Flags != 0o100002 || f.Mount != 24 || f.TTY != 4 {
		t.Errorf("%+v, want flags 0100002, mount 24, terminal 4", f)
	}
}

// message puts a netlink message together.
func message(kind uint16, data []byte) []byte {
	b := make([]byte, 16, 16+len(data))
	binary.NativeEndian.PutUint32(b, uint32(16+len(data)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	return append(b, data...)
}

func attribute(kind uint16, value []byte) []byte {
	b := make([]byte, 4, 8+len(value))
	binary.NativeEndian.PutUint16(b, uint16(4+len(value)))
	binary.NativeEndian.PutUint16(b[2:], kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func TestReadAnswer(t *testing.T) {
	number := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
	head := append([]byte{unix.AF_UNIX, unix.SOCK_STREAM, unixListen, 0}, number(77)...)
	head = append(head, make([]byte, 8)...)
	head = append(head, attribute(attrName, []byte("\x00abstract"))...)
	head = append(head, attribute(attrPeer, number(78))...)
	head = append(head, attribute(attrQueue, append(number(5), number(0)...))...)
	head = append(head, attribute(attrShutdown, []byte{3})...)
	all := map[uint64]UnixSocket{}
	done, err := readAnswer(message(diagByFamily, head), all)
	want := UnixSocket{Inode: 77, Type: unix.SOCK_STREAM, State: unixListen, Name: "@abstract", Peer: 78, Waiting: []uint64{5, 0}, Shutdown: 3}
	if done || err != nil || !reflect.DeepEqual(all[77], want) {
		t.Errorf("%+v (%v, %v), want %+v", all[77], done, err, want)
	}
	if done, err := readAnswer(message(unix.NLMSG_DONE, number(0)), all); !done || err != nil {
		t.Errorf("the end is %v (%v)", done, err)
	}
	refusal := int32(-int32(unix.EPERM))
	if _, err := readAnswer(message(unix.NLMSG_ERROR, number(uint32(refusal))), all); err == nil {
		t.Error("a refusal was taken for an answer")
	}
}

func TestParseUnixOfRubbish(t *testing.T) {
	for _, b := range [][]byte{nil, make([]byte, 15), append(make([]byte, 16), 1, 0, 0, 0), append(make([]byte, 16), 255, 255, 0, 0)} {
		if s, ok := parseUnix(b); ok && (s.Name != "" || s.Peer != 0) {
			t.Errorf("%v was read as %+v", b, s)
		}
	}
}
