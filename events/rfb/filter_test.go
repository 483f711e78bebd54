package rfb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
)

// hello is how a client of RFB 3.8 begins; it wants the desktop for itself.
const hello = "RFB 003.008\n\x01\x00"

// The messages of a client, each by what it is.
var (
	pixels  = "\x00\x00\x00\x00" + strings.Repeat("p", 16)
	asks    = "\x03\x01\x00\x00\x00\x00\x03\x20\x02\x58"
	key     = "\x04\x01\x00\x00\x00\x00\x00a"
	pointer = "\x05\xff\x00\x10\x00\x10"
	text    = "\x06\x00\x00\x00\x00\x00\x00\x05hello"
	rich    = "\x06\x00\x00\x00\xff\xff\xff\xfbhello" // of the extended clipboard
	updates = "\x96\x01\x00\x00\x00\x00\x03\x20\x02\x58"
	fenced  = "\xf8\x00\x00\x00\x00\x00\x00\x01\x02ab"
	off     = "\xfa\x00\x01\x02"
	size    = "\xfb\x00\x03\x20\x02\x58\x01\x00" + strings.Repeat("s", 16)
	scan    = "\xff\x00\x00\x01\x00\x00\x00a\x00\x00\x00\x1e"
)

func encodings(all ...int32) string {
	b := binary.BigEndian.AppendUint16([]byte{setEncodings, 0}, uint16(len(all)))
	for _, e := range all {
		b = binary.BigEndian.AppendUint32(b, uint32(e))
	}
	return string(b)
}

// TestWatching: a client that may only watch gets what it asks for, and nothing that it does arrives, in pieces of any size.
func TestWatching(t *testing.T) {
	said := []string{hello, pixels, encodings(7, extendedButtons, -308), key, asks, pointer, text, updates, rich, fenced, off, size, asks, scan, encodings(), asks}
	watched := "RFB 003.008\n\x01\x01" + pixels + encodings(7, -308) + asks + updates + fenced + asks + encodings() + asks
	used := hello + pixels + encodings(7, -308) + strings.Join(said[3:], "")
	for n := 1; n < 40; n++ {
		for _, c := range []struct {
			watch bool
			want  string
		}{{true, watched}, {false, used}} {
			f := Filter{Watch: c.watch}
			var got []byte
			did := false
			for p := range slices.Chunk([]byte(strings.Join(said, "")), n) {
				var used bool
				var err error
				if got, used, err = f.Take(got, p); err != nil {
					t.Fatal(err)
				}
				did = did || used
			}
			if string(got) != c.want {
				t.Errorf("in pieces of %d, watch %v: it passes %q", n, c.watch, got)
			}
			if did == c.watch {
				t.Errorf("in pieces of %d, watch %v: a person did something: %v", n, c.watch, did)
			}
		}
	}
}

// TestUse: keys and pointers are what a person does; a client that shows pictures alone isn't used.
func TestUse(t *testing.T) {
	for said, want := range map[string]bool{asks: false, pixels + asks + updates + fenced + encodings(1): false, text: false, size: false, key: true, pointer: true, scan: true, asks + key: true, pointer + pointer: true} {
		f := Filter{step: atMessages}
		if _, used, err := f.Take(nil, []byte(said)); err != nil || used != want {
			t.Errorf("%q: used %v, %v", said, used, err)
		}
	}
}

// TestPointer: only one that moves, or whose buttons change, is one that a person has.
func TestPointer(t *testing.T) {
	f := Filter{step: atMessages}
	for i, c := range []struct {
		said string
		want bool
	}{{pointer, true}, {pointer, false}, {asks + pointer, false}, {"\x05\x00\x00\x10\x00\x10", true}, {"\x05\x00\x00\x11\x00\x10", true}, {"\x05\x00\x00\x11\x00\x10", false}} {
		if _, used, err := f.Take(nil, []byte(c.said)); err != nil || used != c.want {
			t.Errorf("message %d: used %v, %v", i, used, err)
		}
	}
}

// TestNotUnderstood: what isn't known ends it, also for a client that may do all.
func TestNotUnderstood(t *testing.T) {
	for _, said := range []string{
		"GET / HTTP/1.1\r\n", "RFB 003.003\n", "RFB 004.001\n", "RFB 003.008\n\x02", "RFB 003.008\n\x10",
		hello + "\x01", hello + "\x07", hello + "\xfc", hello + "\xff\x01\x00\x00........", hello + "\x02\x00\xff\xff",
		hello + "\x06\x00\x00\x00\x7f\xff\xff\xff", hello + "\x06\x00\x00\x00\x80\x00\x00\x00", hello + "\xf8\x00\x00\x00\x00\x00\x00\x01\xff", hello + "\xfb\x00\x03\x20\x02\x58\xff\x00",
	} {
		for _, watch := range []bool{false, true} {
			f := Filter{Watch: watch}
			if out, _, err := f.Take(nil, []byte(said)); err == nil {
				t.Errorf("%q: it passes %q", said, out)
			}
		}
	}
	f := Filter{}
	if _, _, err := f.Take(nil, []byte("RFB 003.008\n\x02")); !errors.Is(err, errSecurity) {
		t.Errorf("a desktop with a password: %v", err)
	}
}

// harmless reads what a session gets of a client that watches, by rules of its own, and reports what is left.
func harmless(b []byte) (rest []byte, ok bool) {
	for len(b) > 0 {
		n := 0
		switch b[0] {
		case 0:
			n = 20
		case 2:
			if len(b) < 4 {
				return b, false
			}
			n = 4 + 4*int(binary.BigEndian.Uint16(b[2:]))
			if len(b) >= n && contains(b[4:n], extendedButtons) {
				return b, false
			}
		case 3, 150:
			n = 10
		case 248:
			if len(b) < 9 {
				return b, false
			}
			n = 9 + int(b[8])
		default:
			return b, false
		}
		if n > len(b) {
			return b, b[0] == 248 // the bytes of a fence are passed as they come
		}
		b = b[n:]
	}
	return nil, true
}

func contains(list []byte, encoding int32) bool {
	for ; len(list) >= 4; list = list[4:] {
		if int32(binary.BigEndian.Uint32(list)) == encoding {
			return true
		}
	}
	return false
}

// FuzzFilter: however a client cuts what it says, the same is passed, nothing of it acts if it only watches,
// and little is kept.
func FuzzFilter(f *testing.F) {
	for _, said := range []string{hello + pixels + key + asks, hello + text + rich + size + asks, hello + fenced + scan + off + encodings(1, extendedButtons) + updates + pointer, "RFB 003.007\n\x01\x01" + asks} {
		f.Add([]byte(said), 3)
	}
	f.Fuzz(func(t *testing.T, said []byte, n int) {
		for _, watch := range []bool{false, true} {
			whole, parts := Filter{Watch: watch}, Filter{Watch: watch}
			want, used, wantErr := whole.Take(nil, said)
			var got []byte
			var did bool
			var err error
			for p := range slices.Chunk(said, max(n%64, 1)) {
				var u bool
				if got, u, err = parts.Take(got, p); err != nil {
					break
				}
				did = did || u
				if len(parts.part) > 4+4*maxEncodings {
					t.Fatalf("it keeps %d bytes", len(parts.part))
				}
			}
			if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) {
				t.Fatalf("whole it passes %q, %v, and in pieces %q, %v", want, wantErr, got, err)
			}
			if !watch {
				continue
			}
			if used || did {
				t.Fatal("who watches has used it")
			}
			const begins = VersionSize + 2
			if len(want) < begins {
				continue
			}
			if want[begins-1] != 1 {
				t.Fatal("who watches has the others sent away")
			}
			if rest, ok := harmless(want[begins:]); !ok {
				t.Fatalf("who watches says %q", rest)
			}
		}
	})
}
