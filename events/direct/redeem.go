package direct

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// magic begins what a client sends; its last byte is the version of the protocol. The secret, the port
// (two bytes, big endian), the length of the session's name (one byte) and the name follow.
const magic = "DIADIR\x01"

// granted is what the host answers; the frames of a tunnel follow. If it refuses it closes.
const granted = byte('g')

// redemption is what a client shows for a connection.
type redemption struct {
	secret  []byte
	port    uint16
	session string // with its tenant, as the Hello had it
}

func (r redemption) append(b []byte) ([]byte, error) {
	if len(r.secret) != secretSize || len(r.session) > 255 {
		return nil, fmt.Errorf("show a grant: its secret has %d bytes, its session %d", len(r.secret), len(r.session))
	}
	b = append(append(b, magic...), r.secret...)
	b = binary.BigEndian.AppendUint16(b, r.port)
	return append(append(b, byte(len(r.session))), r.session...), nil
}

var errNotOurs = errors.New("what was sent shows no grant")

// readRedemption reads no more than the redemption.
func readRedemption(in io.Reader) (redemption, error) {
	head := make([]byte, len(magic)+secretSize+2+1)
	if _, err := io.ReadFull(in, head); err != nil {
		return redemption{}, err
	}
	rest, ours := bytes.CutPrefix(head, []byte(magic))
	if !ours {
		return redemption{}, errNotOurs
	}
	r := redemption{secret: rest[:secretSize], port: binary.BigEndian.Uint16(rest[secretSize:])}
	name := make([]byte, rest[secretSize+2])
	if _, err := io.ReadFull(in, name); err != nil {
		return redemption{}, err
	}
	r.session = string(name)
	return r, nil
}
