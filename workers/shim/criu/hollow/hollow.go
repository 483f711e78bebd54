package hollow

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Each image begins with two magic numbers; then come messages of protobuf, each after its
// length.
const (
	magicSize   = 8
	lengthSize  = 4
	pageSize    = 4096
	pagePresent = 1 << 2 // criu's PE_PRESENT
)

// Range is a part of a process's memory, in whole pages.
type Range struct{ Start, End uint64 }

var errImage = errors.New("read criu's image: it is cut short")

// Pagemap gives a page map with nothing in it but these ranges, and the number of the image
// that holds their pages, one after the other.
func Pagemap(img []byte, present []Range) (out []byte, pages uint32, err error) {
	head, _, err := first(img)
	if err != nil {
		return nil, 0, err
	}
	err = fields(head, func(field int, v uint64, _ []byte) {
		if field == 1 {
			pages = uint32(v)
		}
	})
	out = append(out, img[:magicSize+lengthSize+len(head)]...)
	for _, r := range present {
		n := (r.End - r.Start) / pageSize
		var m []byte
		m = number(m, 1, r.Start)
		m = number(m, 2, n)
		m = number(m, 4, pagePresent)
		m = number(m, 5, n)
		out = append(out, framed(m)...)
	}
	return out, pages, err
}

// Ghost gives the image of a file without a name, of which size bytes are head, with the
// file's size and nothing of its content. head must hold the first message.
func Ghost(head []byte, size int64) ([]byte, error) {
	entry, rest, err := first(head)
	if err != nil {
		return nil, err
	}
	var mode uint64
	chunks := false
	err = fields(entry, func(field int, v uint64, _ []byte) {
		switch field {
		case 3:
			mode = v
		case 9:
			chunks = v != 0
		}
	})
	if err != nil {
		return nil, err
	}
	const format, regular = 0o170000, 0o100000
	if mode&format == regular && !chunks {
		entry = number(append([]byte(nil), entry...), 9, 1)
		entry = number(entry, 10, uint64(size)-uint64(len(head)-len(rest)))
	}
	return append(append([]byte(nil), head[:magicSize]...), framed(entry)...), nil
}

// Advised reports whether the image of a process's mappings has one that is locked, advised
// about or has flags of the mends. The kernel's own code and data don't count.
func Advised(img []byte) (advised bool, err error) {
	mm, _, err := first(img)
	if err != nil {
		return false, err
	}
	const mappings, flags, status, advice, mends = 14, 6, 7, 9, 100
	const locked = 0x2000               // MAP_LOCKED
	const kernels = 1<<2 | 1<<3 | 1<<12 // CRIU's VMA_AREA_VSYSCALL, _VDSO, _VVAR
	err = each(mm, func(f part) {
		if f.number != mappings {
			return
		}
		own, kernel := false, false
		bad := fields(f.bytes, func(field int, v uint64, _ []byte) {
			own = own || field == flags && v&locked != 0 || field == advice && v != 0 || field >= mends
			kernel = kernel || field == status && v&kernels != 0
		})
		advised = advised || own && !kernel || bad != nil
	})
	return advised, err
}

// Unlocked gives the image of a process's mappings with those that are locked as a whole
// locked as they are touched, so that a restore of them allocates nothing. A CRIU without
// mends locks, and allocates, them as before.
func Unlocked(img []byte) ([]byte, error) {
	mm, rest, err := first(img)
	if err != nil {
		return nil, err
	}
	const mappings, flags, lockOnFault = 14, 6, 100
	const locked = 0x2000 // MAP_LOCKED
	var out []byte
	err = each(mm, func(f part) {
		if f.number != mappings {
			out = append(out, f.raw...)
			return
		}
		m := f.bytes
		if fields(m, func(field int, v uint64, _ []byte) {
			if field == flags && v&locked != 0 {
				m = number(f.bytes[:len(f.bytes):len(f.bytes)], lockOnFault, 1)
			}
		}) != nil {
			out = append(out, f.raw...)
			return
		}
		out = binary.AppendUvarint(out, mappings<<3|2)
		out = append(binary.AppendUvarint(out, uint64(len(m))), m...)
	})
	return append(append(append([]byte(nil), img[:magicSize]...), framed(out)...), rest...), err
}

// first splits an image after its first message.
func first(img []byte) (message, rest []byte, err error) {
	if len(img) < magicSize+lengthSize {
		return nil, nil, errImage
	}
	n := int64(binary.LittleEndian.Uint32(img[magicSize:]))
	img = img[magicSize+lengthSize:]
	if n > int64(len(img)) {
		return nil, nil, errImage
	}
	return img[:n:n], img[n:], nil
}

func framed(m []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(m))), m...)
}

func number(m []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(field)<<3), v)
}

// part is a field of a message: its number, its value of one kind or the other, and all of it.
type part struct {
	number int
	value  uint64
	bytes  []byte
	raw    []byte
}

// fields calls f for each field of a message.
func fields(m []byte, f func(field int, v uint64, b []byte)) error {
	return each(m, func(p part) { f(p.number, p.value, p.bytes) })
}

// each calls f for each field of a message.
func each(m []byte, f func(p part)) error {
	for len(m) > 0 {
		whole := m
		tag, n := binary.Uvarint(m)
		if n <= 0 {
			return errImage
		}
		m = m[n:]
		var v uint64
		var b []byte
		size := 0
		switch tag & 7 {
		case 0:
			if v, n = binary.Uvarint(m); n <= 0 {
				return errImage
			}
			m = m[n:]
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			if v, n = binary.Uvarint(m); n <= 0 || v > uint64(len(m)-n) {
				return errImage
			}
			m, size = m[n:], int(v)
		default:
			return fmt.Errorf("read criu's image: a field of type %d", tag&7)
		}
		if size > len(m) {
			return errImage
		}
		b, m = m[:size], m[size:]
		f(part{number: int(tag >> 3), value: v, bytes: b, raw: whole[:len(whole)-len(m)]})
	}
	return nil
}
