package shim

import (
	"bytes"
	"context"
	"fmt"
	"image/jpeg"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/rfb"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/reach"
)

// pictureWait bounds how long a capture waits for a picture. A picture has pictureSide pixels at most in either direction.
const (
	pictureWait    = time.Second
	pictureSide    = 1280
	pictureQuality = 80
)

// picture is what the desktop of a session showed when it was captured. It is kept in memory alone, and goes into the image.
type picture struct {
	port uint16 // of its VNC server; 0 if it is no desktop
	tree *processes
	jpeg []byte
}

// take takes a picture of a session that runs. A session is captured without one all the same, with a warning.
func (p *picture) take(ctx context.Context, laps *driver.Laps) []schemas.Warning {
	if p.port == 0 {
		return nil
	}
	defer laps.Mark("picture")
	ctx, cancel := context.WithTimeout(ctx, pictureWait)
	defer cancel()
	var err error
	if p.jpeg, err = p.now(ctx); err != nil {
		return []schemas.Warning{{Code: schemas.WarnPicture, Subject: "desktop", Text: fmt.Sprintf("there is no picture of the desktop: %v", err)}}
	}
	return nil
}

// now asks the desktop for a picture. Its connection has ended at both ends when it returns without an error, so that it is in no image.
func (p *picture) now(ctx context.Context) ([]byte, error) {
	space, err := reach.Namespace(p.tree.init)
	if err != nil {
		return nil, err
	}
	defer space.Close()
	c, err := reach.Dial(ctx, space, p.port)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	shown, err := rfb.Picture(c, pictureSide)
	if err == nil {
		err = c.CloseWrite()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, c) // until the server has closed it
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("its VNC server didn't answer within %s", pictureWait)
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = jpeg.Encode(&b, shown, &jpeg.Options{Quality: pictureQuality})
	return b.Bytes(), err
}

// save puts the picture into an image.
func (p *picture) save(dir string) error {
	if len(p.jpeg) == 0 {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, attach.PictureFile), p.jpeg, 0o600); err != nil {
		return fmt.Errorf("save a picture of the desktop: %w", err)
	}
	return nil
}
