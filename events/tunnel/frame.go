package tunnel

import (
	"encoding/binary"
	"errors"
)

// Window is how many bytes of one direction may be sent and not yet read by the
// application at the other end.
const Window = 256 << 10

// maxMessage is the largest message that a tunnel publishes, its header
// included. Small messages let other traffic of the same NATS connection pass
// in between.
const maxMessage = 32 << 10

// magic opens a request for a connection; its last byte is the version of the
// protocol. The hello follows.
const magic = "DIATUN\x01"

// kind says what a frame does.
type kind byte

const (
	kindAccept     kind = 1 // the listener's first frame: names the connection
	kindData       kind = 2 // the payload is the next part of the stream
	kindCredit     kind = 3 // the payload is how many bytes were read so far
	kindCloseWrite kind = 4 // no data follows; the sender still reads
	kindClose      kind = 5 // no data follows and the sender no longer reads
	kindAbort      kind = 6 // the connection has failed; the payload says why
	kindPing       kind = 7 // the sender is alive
	kindOpen       kind = 8 // the dialer's first frame: it has taken this listener as its peer
)

// connID is made by the listener for each connection, so that frames of another
// one that reach the same inbox are told apart.
type connID [8]byte

// frameHeader is the size of kind, connection and number in front of a payload.
const frameHeader = 1 + 8 + 8

// frame is one message of an open connection. The numbers of a direction start
// at 0 and have no gaps, across all kinds.
type frame struct {
	kind    kind
	conn    connID
	number  uint64
	payload []byte
}

func (f frame) append(b []byte) []byte {
	b = append(b, byte(f.kind))
	b = append(b, f.conn[:]...)
	b = binary.BigEndian.AppendUint64(b, f.number)
	return append(b, f.payload...)
}

func parseFrame(b []byte) (frame, error) {
	if len(b) < frameHeader {
		return frame{}, errors.New("message is shorter than a frame's header")
	}
	f := frame{kind: kind(b[0]), number: binary.BigEndian.Uint64(b[9:]), payload: b[frameHeader:]}
	copy(f.conn[:], b[1:])
	return f, nil
}
