package rfb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The bounds of what a client says.
const (
	maxEncodings = 256
	maxCutText   = 1 << 20 // bytes of a clipboard
	maxScreens   = 16
)

// The types of a client's messages: those of RFC 6143, and of extensions that TigerVNC and noVNC have.
const (
	setPixelFormat    = 0
	setEncodings      = 2
	updateRequest     = 3
	keyEvent          = 4
	pointerEvent      = 5
	clientCutText     = 6
	continuousUpdates = 150
	fence             = 248
	xvp               = 250 // turns the machine off
	setDesktopSize    = 251
	qemu              = 255
)

// extendedButtons is the pseudo-encoding that makes some pointer events a byte longer. Whether they are depends on what the
// server has said, which isn't read: no client gets it.
const extendedButtons = -316

// message is how a type of messages is read.
type message struct {
	head int // bytes that say how long it is
	// rest gives how many follow; none if nil.
	rest func(head []byte) (int, error)
	acts bool // it does something: a client that may only watch doesn't say it
	used bool // a person did it
}

var messages = map[byte]message{
	setPixelFormat: {head: 20},
	setEncodings: {head: 4, rest: func(h []byte) (int, error) {
		return bounded("encodings", uint32(binary.BigEndian.Uint16(h[2:])), maxEncodings, 4)
	}},
	updateRequest:     {head: 10},
	keyEvent:          {head: 8, acts: true, used: true},
	pointerEvent:      {head: 6, acts: true, used: true},
	clientCutText:     {head: 8, acts: true, rest: cutText},
	continuousUpdates: {head: 10},
	fence:             {head: 9, rest: func(h []byte) (int, error) { return bounded("bytes in a fence", uint32(h[8]), 64, 1) }},
	xvp:               {head: 4, acts: true},
	setDesktopSize:    {head: 8, acts: true, rest: func(h []byte) (int, error) { return bounded("screens", uint32(h[6]), maxScreens, 16) }},
	qemu:              {head: 12, acts: true, used: true},
}

// bounded gives the size of n parts, if they aren't too many.
func bounded(of string, n, most uint32, size int) (int, error) {
	if n > most {
		return 0, fmt.Errorf("a client sends %d %s: want %d at most", n, of, most)
	}
	return int(n) * size, nil
}

// cutText is the size of a clipboard; a negative one is that of the extended clipboard.
func cutText(head []byte) (int, error) {
	n := int32(binary.BigEndian.Uint32(head[4:]))
	size := uint32(n)
	if n < 0 {
		size = -size
	}
	return bounded("bytes of a clipboard", size, maxCutText, 1)
}

// errSecurity: the port is reached by those alone who may, and no password is added to that.
var errSecurity = errors.New("the desktop has to be one with the security type None")

// step is how far a client is.
type step int

const (
	atVersion step = iota
	atSecurity
	atInit
	atMessages
)

// Filter reads what a client of RFB says, and passes what it may. Its zero value is for a client that may do all.
type Filter struct {
	Watch bool // it may only watch

	step  step
	part  []byte // of a message whose head, or whose list, isn't whole
	large int    // bytes to come of a message that are passed or dropped as they come
	drops bool   // they are dropped
	last  string // what was said of the pointer
}

// Take takes the next bytes, and appends to out what is passed of them. Used reports whether a person did something that
// is passed. After an error nothing more is taken.
func (f *Filter) Take(out, p []byte) (passed []byte, used bool, err error) {
	for len(p) > 0 {
		if f.large > 0 {
			n := min(f.large, len(p))
			if !f.drops {
				out = append(out, p[:n]...)
			}
			f.large -= n
			p = p[n:]
			continue
		}
		var n int
		if n, err = f.wants(); err != nil {
			return out, used, err
		}
		n = min(n-len(f.part), len(p))
		f.part = append(f.part, p[:n]...)
		p = p[n:]
		var did bool
		out, did, err = f.whole(out)
		used = used || did
		if err != nil {
			return out, used, err
		}
	}
	return out, used, nil
}

// VersionSize is the length of the version that each side says first.
const VersionSize = 12

// ErrServer: what a server says first isn't RFB 3.7 or later.
var ErrServer = errors.New("no VNC server of RFB 3.7 or later is at the port")

// CheckServer looks at the version that a server says first. One before 3.7 chooses the security type by itself: it would
// take a client's bytes for others than the filter does.
func CheckServer(version []byte) error {
	if v := string(version); len(v) != VersionSize || !strings.HasPrefix(v, "RFB ") || v[4:] < "003.007\n" {
		return ErrServer
	}
	return nil
}

// wants gives how many bytes part has to have before more of it is known.
func (f *Filter) wants() (int, error) {
	switch f.step {
	case atVersion:
		return VersionSize, nil
	case atSecurity, atInit:
		return 1, nil
	}
	if len(f.part) == 0 {
		return 1, nil
	}
	m, ok := messages[f.part[0]]
	if !ok {
		return 0, fmt.Errorf("a client sends a message of the type %d, which isn't known", f.part[0])
	}
	if len(f.part) < m.head || f.part[0] != setEncodings {
		return m.head, nil
	}
	rest, err := m.rest(f.part)
	return m.head + rest, err
}

// whole passes on the part if it is all that is wanted.
func (f *Filter) whole(out []byte) (passed []byte, used bool, err error) {
	n, err := f.wants()
	if err != nil || len(f.part) < n {
		return out, false, err
	}
	part := f.part
	f.part = f.part[:0]
	switch f.step {
	case atVersion:
		if v := string(part); v != "RFB 003.008\n" && v != "RFB 003.007\n" {
			return out, false, fmt.Errorf("a client speaks %.20q: want RFB 3.7 or 3.8", v)
		}
	case atSecurity:
		if part[0] != 1 {
			return out, false, errSecurity
		}
	case atInit:
		if f.Watch {
			part[0] = 1 // else the server would send the others away
		}
	case atMessages:
		return f.message(out, part)
	}
	f.step++
	return append(out, part...), false, nil
}

// message passes on a message whose head is whole.
func (f *Filter) message(out, part []byte) (passed []byte, used bool, err error) {
	m := messages[part[0]]
	drops := f.Watch && m.acts
	used = m.used
	if part[0] == pointerEvent { // some clients repeat where it is
		used = f.last != string(part)
		f.last = string(part)
	}
	switch {
	case part[0] == setEncodings:
		return append(out, plainEncodings(part)...), false, nil
	case part[0] == qemu && part[1] != 0:
		return out, false, fmt.Errorf("a client sends the message %d of QEMU, which isn't known", part[1])
	case m.rest != nil:
		if f.large, err = m.rest(part); err != nil {
			return out, false, err
		}
		f.drops = drops
	}
	if drops {
		return out, false, nil
	}
	return append(out, part...), used, nil
}

// plainEncodings takes out of a message with encodings the one that makes messages ambiguous.
func plainEncodings(m []byte) []byte {
	kept := m[:4]
	for list := m[4:]; len(list) >= 4; list = list[4:] {
		if int32(binary.BigEndian.Uint32(list)) != extendedButtons {
			kept = append(kept, list[:4]...)
		}
	}
	binary.BigEndian.PutUint16(kept[2:], uint16(len(kept)/4-1))
	return kept
}
