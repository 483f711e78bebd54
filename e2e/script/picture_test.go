package script

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"os/exec"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
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
