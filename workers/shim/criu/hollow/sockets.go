package hollow

import (
	"encoding/binary"
	"net/netip"
)

// Bound gives the address that an internet socket of the image files.img is bound to, by the id that criu
// names it by in its log. It reports false if the image has no such socket.
func Bound(img []byte, id uint32) (at netip.AddrPort, ok bool) {
	if len(img) < magicSize {
		return at, false
	}
	for len(img) > magicSize {
		entry, rest, err := first(img)
		if err != nil {
			return netip.AddrPort{}, false
		}
		if is, found := boundOf(entry); is == id && found.IsValid() {
			return found, true
		}
		img = img[len(img)-len(rest)-magicSize:] // first passes over a magic number without a look
	}
	return netip.AddrPort{}, false
}

// boundOf reads a file_entry: the socket's id, and where it is bound. at isn't valid for another
// sort of file.
func boundOf(entry []byte) (id uint32, at netip.AddrPort) {
	const isk = 4
	var socket []byte
	if err := fields(entry, func(field int, _ uint64, b []byte) {
		if field == isk {
			socket = b
		}
	}); err != nil || socket == nil {
		return 0, at
	}
	var port uint16
	var raw []byte
	word := func(v uint64) { raw = binary.NativeEndian.AppendUint32(raw, uint32(v)) }
	err := fields(socket, func(field int, v uint64, b []byte) {
		switch field {
		case 1:
			id = uint32(v)
		case 7:
			port = uint16(v)
		case 11: // the words of the address, packed or not
			if len(b) == 0 {
				word(v)
			}
			for len(b) > 0 {
				v, n := binary.Uvarint(b)
				if n <= 0 {
					break
				}
				word(v)
				b = b[n:]
			}
		}
	})
	addr, ok := netip.AddrFromSlice(raw)
	if err != nil || !ok {
		return id, at
	}
	return id, netip.AddrPortFrom(addr.Unmap(), port)
}
