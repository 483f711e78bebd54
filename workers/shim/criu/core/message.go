package core

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// field is one field of a protobuf message, as far as this package looks.
type field struct {
	tag    uint64
	number uint64 // of a varint
	bytes  []byte // of anything else, with no length before it
}

func (f field) id() uint64   { return f.tag >> 3 }
func (f field) kind() uint64 { return f.tag & 7 }

// The kinds of fields.
const (
	kindVarint = 0
	kind64     = 1
	kindBytes  = 2
	kind32     = 5
)

// message keeps its fields in order, so that it is encoded as it was.
type message []field

var errMessage = errors.New("the image can't be decoded")

func parse(b []byte) (message, error) {
	var m message
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errMessage
		}
		b = b[n:]
		f := field{tag: tag}
		size := 0
		switch f.kind() {
		case kindVarint:
			if f.number, n = binary.Uvarint(b); n <= 0 {
				return nil, errMessage
			}
			b = b[n:]
		case kind64:
			size = 8
		case kind32:
			size = 4
		case kindBytes:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return nil, errMessage
			}
			b, size = b[n:], int(length)
		default:
			return nil, errMessage
		}
		if size > len(b) {
			return nil, errMessage
		}
		f.bytes, b = b[:size], b[size:]
		m = append(m, f)
	}
	return m, nil
}

func (m message) encode() []byte {
	var b []byte
	for _, f := range m {
		b = binary.AppendUvarint(b, f.tag)
		switch f.kind() {
		case kindVarint:
			b = binary.AppendUvarint(b, f.number)
			continue
		case kindBytes:
			b = binary.AppendUvarint(b, uint64(len(f.bytes)))
		}
		b = append(b, f.bytes...)
	}
	return b
}

func (m message) find(id uint64) int {
	for i, f := range m {
		if f.id() == id {
			return i
		}
	}
	return -1
}

func (m message) sub(id uint64) (message, error) {
	i := m.find(id)
	if i < 0 || m[i].kind() != kindBytes {
		return nil, fmt.Errorf("%w: it has no field %d", errMessage, id)
	}
	return parse(m[i].bytes)
}

func (m message) setSub(id uint64, s message) { m[m.find(id)].bytes = s.encode() }

func (m message) number(id uint64) uint64 {
	if i := m.find(id); i >= 0 {
		return m[i].number
	}
	return 0
}

func (m message) setNumber(id, v uint64) {
	if i := m.find(id); i >= 0 {
		m[i].number = v
	}
}

const headerSize = 12 // two magic numbers, the length of the one message

// parseFile reads an image that is one message.
func parseFile(file []byte) (message, error) {
	if len(file) < headerSize || int(binary.LittleEndian.Uint32(file[8:])) != len(file)-headerSize {
		return nil, errors.New("the image is not one message")
	}
	return parse(file[headerSize:])
}

// encodeFile gives an image of one message the message m.
func encodeFile(file []byte, m message) []byte {
	body := m.encode()
	out := append([]byte(nil), file[:headerSize-4]...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(body)))
	return append(out, body...)
}

// parseFiles reads an image that is any number of messages.
func parseFiles(file []byte) (all []message, err error) {
	const magicSize, lengthSize = headerSize - 4, 4
	if len(file) < magicSize {
		return nil, errMessage
	}
	for b := file[magicSize:]; len(b) > 0; {
		if len(b) < lengthSize || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-lengthSize) {
			return nil, errMessage
		}
		n := lengthSize + int(binary.LittleEndian.Uint32(b))
		m, err := parse(b[lengthSize:n])
		if err != nil {
			return nil, err
		}
		all, b = append(all, m), b[n:]
	}
	return all, nil
}

func numberField(id, v uint64) field       { return field{tag: id<<3 | kindVarint, number: v} }
func bytesField(id uint64, b []byte) field { return field{tag: id<<3 | kindBytes, bytes: b} }
