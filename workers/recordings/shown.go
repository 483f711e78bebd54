package recordings

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/snapshots"
)

// Shown gives what the terminal of a session that isn't on its host showed last: when it was suspended, as its image has it, or
// when it ended by itself, as its recording has it.
func (s *Spool) Shown(ctx context.Context, r schemas.SessionRecord) (attach.Screen, []byte, error) {
	var head attach.Screen
	var paint []byte
	var err error
	if r.State != schemas.Exited && r.Head != nil {
		head, paint, err = shownInImage(ctx, s.Snapshots, r)
	} else {
		head, paint, err = s.shownAtEnd(ctx, r)
	}
	if err == nil && head.Rows == 0 {
		err = &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("what session %s showed last wasn't kept", r.Name()), Hint: "`diapause logs` has what it printed"}
	}
	return head, paint, err
}

// The entries of an image that say what the terminal showed: the first one names the second.
const (
	metaFolder = "meta/"
	metaEntry  = metaFolder + "session.json"
)

func shownInImage(ctx context.Context, from *snapshots.Store, r schemas.SessionRecord) (head attach.Screen, paint []byte, err error) {
	img, err := from.Open(ctx, r, *r.Head)
	if err != nil {
		return head, nil, err
	}
	defer img.Close()
	var meta struct {
		Commands []struct {
			Shown *struct {
				attach.Screen
				Paint string `json:"paint"`
			} `json:"shown"`
		} `json:"commands"`
	}
	data, err := readEntry(img, metaEntry)
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	if err != nil {
		return head, nil, fmt.Errorf("read what session %s showed: %w", r.Name(), err)
	}
	if len(meta.Commands) == 0 || meta.Commands[0].Shown == nil {
		return head, nil, nil
	}
	paint, err = readEntry(img, metaFolder+meta.Commands[0].Shown.Paint)
	return meta.Commands[0].Shown.Screen, paint, err
}

// Picture gives what the desktop of a session showed when it was suspended, a JPEG, as its image has it.
func Picture(ctx context.Context, from *snapshots.Store, r schemas.SessionRecord) ([]byte, error) {
	if r.State != schemas.Suspended || r.Head == nil {
		return nil, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("session %s is %s: there is a picture of one that sleeps", r.Name(), r.State), Hint: "connect to its desktop"}
	}
	img, err := from.Open(ctx, r, *r.Head)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	const name = metaFolder + attach.PictureFile
	if !slices.ContainsFunc(img.Entries(), func(e image.Entry) bool { return e.Name == name }) {
		return nil, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("snapshot %s of session %s has no picture", r.Head.Name, r.Name()), Hint: "its warnings say why, if it is a desktop"}
	}
	return readEntry(img, name)
}

func readEntry(img *image.Reader, name string) ([]byte, error) {
	in, err := img.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(in)
}

// farOff is after all events of a recording.
var farOff = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// framesWithin is in how many segments, from the end, a frame is looked for.
const framesWithin = 16

// shownAtEnd plays the end of a recording: what follows on its last frame, which most have in the last two segments. One that has
// none in the last framesWithin isn't played: it may be large, and others wait.
func (s *Spool) shownAtEnd(ctx context.Context, r schemas.SessionRecord) (head attach.Screen, paint []byte, err error) {
	p := screen.NewPlayback()
	play := func(e recording.Event) error {
		p.Event(e.At, string(e.Code), e.Data)
		return nil
	}
	var rec *Reader
	found := false
	for _, most := range []int{2, framesWithin} {
		if rec, err = s.Open(ctx, r, recording.Part{Most: most}); err != nil || len(rec.chain.Segments) == 0 {
			return head, nil, err
		}
		if found, err = rec.From(ctx, farOff, play); err != nil {
			return head, nil, err
		}
		if found {
			break
		}
	}
	if !found || !p.Known() {
		return head, nil, nil
	}
	rows, cols := p.Screen().Size()
	_, head.At = rec.Span()
	head.Size = attach.Size{Rows: uint16(rows), Cols: uint16(cols)}
	return head, p.Screen().Paint(), nil
}
