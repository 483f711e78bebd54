package rfb

import (
	"encoding/binary"
	"image/color"
	"io"
	"net"
	"strings"
	"testing"
)

// served is what a server sends after its version, of a screen of 3x2 pixels.
func served(types, result string, messages ...string) string {
	head := "\x00\x03\x00\x02" + strings.Repeat("f", 16) + "\x00\x00\x00\x04name"
	return "RFB 003.008\n" + types + result + head + strings.Join(messages, "")
}

// rectangle is one, of pixels that are each the same byte.
func rectangle(x, y, w, h uint16, encoding uint32, pixels string) string {
	b := []byte{}
	for _, n := range []uint16{x, y, w, h} {
		b = binary.BigEndian.AppendUint16(b, n)
	}
	b = binary.BigEndian.AppendUint32(b, encoding)
	for _, p := range pixels {
		b = append(b, byte(p), byte(p), byte(p), 0)
	}
	return string(b)
}

// painted asks a server that says all this.
func painted(t *testing.T, most int, says string) (pixels string, asked string, err error) {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	heard := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(theirs)
		heard <- string(b)
	}()
	go func() { _, _ = io.WriteString(theirs, says) }() // until the client has gone
	img, err := Picture(ours, most)
	ours.Close()
	asked = <-heard
	theirs.Close()
	if err != nil {
		return "", asked, err
	}
	for y := range img.Rect.Dy() {
		for x := range img.Rect.Dx() {
			c := img.At(x, y).(color.RGBA)
			if c.A != 0xff || c.R != c.G || c.G != c.B {
				t.Errorf("the pixel at %d, %d is %v", x, y, c)
			}
			pixels += string(rune(c.R))
		}
		pixels += "/"
	}
	return pixels, asked, nil
}

// TestPicture: a picture comes in parts, among other messages, and is smaller than a screen that is large.
func TestPicture(t *testing.T) {
	first := "\x00\x00\x00\x02" + rectangle(0, 0, 2, 2, 0, "abde") + rectangle(2, 0, 1, 1, 0, "c")
	last := "\x00\x00\x00\x01" + rectangle(2, 1, 1, 1, 0, "f")
	others := "\x02" + "\x03\x00\x00\x00\x00\x00\x00\x03cut" + "\x01\x00\x00\x00\x00\x01colour"
	for most, want := range map[int]string{3: "abc/def/", 2: "ac/", 1: "a/"} {
		got, asked, err := painted(t, most, served("\x02\x02\x01", "\x00\x00\x00\x00", first, others, last))
		if err != nil || got != want {
			t.Errorf("at most %d pixels: %q, %v, want %q", most, got, err, want)
		}
		if !strings.HasPrefix(asked, "RFB 003.008\n\x01\x01\x00") || !strings.HasSuffix(asked, "\x03\x00\x00\x00\x00\x00\x00\x03\x00\x02") {
			t.Errorf("it says %q", asked)
		}
		f := Filter{Watch: true}
		if out, used, err := f.Take(nil, []byte(asked)); err != nil || used || string(out) != asked {
			t.Errorf("it does more than look: %q, %v, %v", out, used, err)
		}
	}
}

// TestPictureOfNone: what a server says that isn't a picture is an error.
func TestPictureOfNone(t *testing.T) {
	for what, says := range map[string]string{
		"another protocol":    "HTTP/1.1 400\r\n",
		"an old version":      "RFB 003.003\n",
		"a password":          "RFB 003.008\n\x01\x02",
		"no security type":    "RFB 003.008\n\x00",
		"it refuses":          served("\x01\x01", "\x00\x00\x00\x01"),
		"no such message":     served("\x01\x01", "\x00\x00\x00\x00", "\x09"),
		"another encoding":    served("\x01\x01", "\x00\x00\x00\x00", "\x00\x00\x00\x01"+rectangle(0, 0, 1, 1, 7, "a")),
		"beyond the screen":   served("\x01\x01", "\x00\x00\x00\x00", "\x00\x00\x00\x01"+rectangle(3, 0, 1, 1, 0, "a")),
		"many rectangles":     served("\x01\x01", "\x00\x00\x00\x00", "\x00\x00\xff\xff"),
		"a long text":         served("\x01\x01", "\x00\x00\x00\x00", "\x03\x00\x00\x00\x7f\xff\xff\xff"),
		"a screen of no size": "RFB 003.008\n\x01\x01\x00\x00\x00\x00" + strings.Repeat("\x00", 24),
	} {
		if _, _, err := painted(t, 3, says); err == nil {
			t.Errorf("%s: there is a picture", what)
		}
	}
}
