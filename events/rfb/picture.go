package rfb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"slices"
)

// The bounds of what a server says.
const (
	maxSide   = 1 << 14
	maxString = 1 << 20
	pixelSize = 4 // bytes, as Picture asks for them
)

// none is the security type without a password.
const none = 1

// The types of a server's messages.
const (
	update       = 0
	colours      = 1
	bell         = 2
	serverCut    = 3
	rawEncoding  = 0
	colourSize   = 6
	rectangleMax = 1 << 14 // in one update
)

// Picture asks the server at conn for all that its screen shows now. A screen that is wider or higher than most pixels is made
// smaller: every second pixel is taken, or every third, and so on. The caller bounds the time, and closes conn.
func Picture(conn io.ReadWriter, most int) (*image.RGBA, error) {
	p := &painter{from: bufio.NewReaderSize(conn, 64<<10), to: conn}
	if err := p.greet(); err != nil {
		return nil, err
	}
	if err := p.begin(most); err != nil {
		return nil, err
	}
	for p.left > 0 {
		if err := p.message(); err != nil {
			return nil, fmt.Errorf("read a picture: %w", err)
		}
	}
	return p.picture, nil
}

// painter is a client that asks for a picture.
type painter struct {
	from          *bufio.Reader
	to            io.Writer
	width, height int
	every         int // pixel that is taken
	left          int // pixels to come
	picture       *image.RGBA
	row           []byte
}

// greet agrees on a version, and on no password.
func (p *painter) greet() error {
	version, err := p.read(VersionSize)
	if err != nil {
		return fmt.Errorf("read the server's version: %w", err)
	}
	if err := CheckServer(version); err != nil {
		return err
	}
	answer := "RFB 003.008\n"
	if string(version) < answer {
		answer = "RFB 003.007\n"
	}
	if _, err := io.WriteString(p.to, answer); err != nil {
		return err
	}
	n, err := p.read(1)
	if err != nil {
		return fmt.Errorf("read the security types: %w", err)
	}
	types, err := p.read(int(n[0]))
	if err != nil {
		return fmt.Errorf("read the security types: %w", err)
	}
	if !slices.Contains(types, none) {
		return errSecurity
	}
	if _, err := p.to.Write([]byte{none}); err != nil {
		return err
	}
	if answer == "RFB 003.007\n" {
		return nil // it has no result
	}
	result, err := p.read(4)
	if err == nil && binary.BigEndian.Uint32(result) != 0 {
		err = errors.New("the server refuses")
	}
	return err
}

// begin joins those who look, and asks for everything.
func (p *painter) begin(most int) error {
	if _, err := p.to.Write([]byte{1}); err != nil { // beside others
		return err
	}
	head, err := p.read(24)
	if err == nil {
		err = p.skip(int64(binary.BigEndian.Uint32(head[20:]))) // its name
	}
	if err != nil {
		return fmt.Errorf("read the screen's size: %w", err)
	}
	p.width, p.height = int(binary.BigEndian.Uint16(head)), int(binary.BigEndian.Uint16(head[2:]))
	if p.width == 0 || p.height == 0 || max(p.width, p.height) > maxSide {
		return fmt.Errorf("a screen of %dx%d pixels", p.width, p.height)
	}
	p.every = max(over(p.width, most), over(p.height, most))
	p.left = p.width * p.height
	p.picture = image.NewRGBA(image.Rect(0, 0, over(p.width, p.every), over(p.height, p.every)))
	p.row = make([]byte, p.width*pixelSize)
	asks := []byte{setPixelFormat, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 0, 8, 16, 0, 0, 0} // red, green, blue, and a byte
	asks = append(asks, setEncodings, 0, 0, 1, 0, 0, 0, rawEncoding)
	asks = append(asks, updateRequest, 0, 0, 0, 0, 0, head[0], head[1], head[2], head[3])
	_, err = p.to.Write(asks)
	return err
}

// over is n/d, rounded up.
func over(n, d int) int { return (n + d - 1) / d }

// message reads one message of the server.
func (p *painter) message() error {
	kind, err := p.from.ReadByte()
	if err != nil {
		return err
	}
	switch kind {
	case update:
		return p.update()
	case colours:
		head, err := p.read(5)
		if err != nil {
			return err
		}
		return p.skip(int64(binary.BigEndian.Uint16(head[3:])) * colourSize)
	case bell:
		return nil
	case serverCut:
		head, err := p.read(7)
		if err != nil {
			return err
		}
		return p.skip(int64(binary.BigEndian.Uint32(head[3:])))
	}
	return fmt.Errorf("a message of the type %d, which isn't known", kind)
}

func (p *painter) update() error {
	head, err := p.read(3)
	if err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint16(head[1:]))
	if n > rectangleMax {
		return fmt.Errorf("%d rectangles in one update", n)
	}
	for range n {
		if err := p.rectangle(); err != nil {
			return err
		}
	}
	return nil
}

// rectangle paints a part of the picture.
func (p *painter) rectangle() error {
	head, err := p.read(12)
	if err != nil {
		return err
	}
	x, y := int(binary.BigEndian.Uint16(head)), int(binary.BigEndian.Uint16(head[2:]))
	w, h := int(binary.BigEndian.Uint16(head[4:])), int(binary.BigEndian.Uint16(head[6:]))
	if encoding := int32(binary.BigEndian.Uint32(head[8:])); encoding != rawEncoding {
		return fmt.Errorf("the encoding %d, which wasn't asked for", encoding)
	}
	if x+w > p.width || y+h > p.height {
		return errors.New("a rectangle beyond the screen")
	}
	for line := y; line < y+h; line++ {
		row := p.row[:w*pixelSize]
		if _, err := io.ReadFull(p.from, row); err != nil {
			return err
		}
		if line%p.every == 0 {
			p.paint(x, line, row)
		}
	}
	p.left -= w * h
	return nil
}

// paint takes the pixels of a row that are in the picture.
func (p *painter) paint(x, line int, row []byte) {
	to := p.picture.Pix[line/p.every*p.picture.Stride:]
	for at := over(x, p.every) * p.every; at < x+len(row)/pixelSize; at += p.every {
		pixel := to[at/p.every*pixelSize:][:pixelSize]
		copy(pixel, row[(at-x)*pixelSize:][:pixelSize])
		pixel[3] = 0xff
	}
}

// read gives the next n bytes.
func (p *painter) read(n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(p.from, b)
	return b, err
}

// skip passes over something that the picture doesn't need.
func (p *painter) skip(n int64) error {
	if n > maxString {
		return fmt.Errorf("%d bytes of a text", n)
	}
	_, err := io.CopyN(io.Discard, p.from, n)
	return err
}
