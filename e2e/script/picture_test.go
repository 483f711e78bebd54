package script

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/diapause/diapause/events/rfb"
)

// cmdPicture has Debian's vncsnapshot take a picture of a desktop that has a size and shows a window with text: white
// and black.
func cmdPicture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: picture NAME FILE SIZE")
	}
	port, err := lookUp(show(ts, args[0]), ".desktop.vnc_port")
	ts.Check(err)
	file := ts.MkAbs(args[1])
	for end := time.Now().Add(deadline); ; time.Sleep(100 * time.Millisecond) {
		err := takePicture(port, file, args[2])
		if err == nil {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("take a picture of %s at port %s: %v", args[0], port, err)
		}
	}
}

func takePicture(port, file, size string) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	// It doesn't understand the end of an update as the encoding tight marks it.
	out, err := exec.CommandContext(ctx, "vncsnapshot", "-quiet", "-encodings", "hextile", "127.0.0.1::"+port, file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return pictured(file, size)
}

// cmdPictured looks at a picture as cmdPicture does.
func cmdPictured(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pictured FILE SIZE")
	}
	ts.Check(pictured(ts.MkAbs(args[0]), args[1]))
}

// cmdPoints moves the pointer on a desktop, as a VNC client does.
func cmdPoints(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: points NAME")
	}
	port, err := lookUp(show(ts, args[0]), ".desktop.vnc_port")
	ts.Check(err)
	c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, deadline)
	ts.Check(err)
	defer c.Close()
	ts.Check(c.SetDeadline(time.Now().Add(deadline)))
	_, err = rfb.Picture(c, 1)
	ts.Check(err)
	_, err = c.Write([]byte{5, 0, 0, 10, 0, 10})
	ts.Check(err)
	ts.Check(c.(*net.TCPConn).CloseWrite())
	_, err = io.Copy(io.Discard, c) // until the server has read it
	ts.Check(err)
}

// pictured checks what a picture shows.
func pictured(file, size string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	img, err := jpeg.Decode(f)
	if err != nil {
		return err
	}
	if b := img.Bounds(); fmt.Sprintf("%dx%d", b.Dx(), b.Dy()) != size {
		return fmt.Errorf("the picture is of %v, want %s", b, size)
	}
	if !written(img) {
		return errors.New("the picture shows no text")
	}
	return nil
}

// written reports whether a picture has pixels that are nearly white, and some that are nearly black.
func written(img image.Image) bool {
	var white, black int
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			_, green, _, _ := img.At(x, y).RGBA()
			switch {
			case green > 0xe000:
				white++
			case green < 0x2000:
				black++
			}
		}
	}
	return white > 1000 && black > 10
}
