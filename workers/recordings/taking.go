package recordings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"filippo.io/age"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/marks"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/asciicast"
)

// taking seals the events of an asciicast in a folder, as the shim of a session seals what its terminal shows: in segments that begin with
// what was shown, with the commands that its marks tell. It holds one segment's list of commands and one screen.
type taking struct {
	dir    string
	to     age.Recipient
	number uint64
	open   *os.File
	seal   *recording.Writer
	data   int64          // bytes in the segment
	framed bool           // a frame was the last event
	screen *screen.Screen // what is shown
	track  marks.Tracker
	list   importedList

	began, last time.Time
	at          int64 // position in the output
	exit        *int
	commands    int64
}

// A segment ends when it has so many bytes sealed, or of data.
const (
	takenSealed = 1 << 20
	takenData   = 8 << 20
	takenFrame  = 256 << 10
)

func newTaking(dir string, to age.Recipient, h asciicast.Header, now time.Time) *taking {
	t := &taking{dir: dir, to: to, began: h.Began, screen: screen.New(h.Rows, h.Cols), track: marks.Tracker{Line: screen.TypedLine}}
	if t.began.IsZero() {
		t.began = now.UTC().Truncate(time.Second)
	}
	t.last = t.began
	return t
}

// errNoOutput: a recording has nothing to show.
var errNoOutput = errors.New("it has no output")

// all takes all events. printed gets the output as well.
func (t *taking) all(ctx context.Context, cast *asciicast.Reader, printed func([]byte)) error {
	size := fmt.Sprintf("%dx%d", cast.Header().Cols, cast.Header().Rows)
	for first := true; ; first = false {
		e, err := cast.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && first && (e.Kind != asciicast.Resize || e.After > 0) {
			err = t.add(recording.Resize, []byte(size), t.began)
		}
		if err == nil {
			err = t.event(e, printed)
		}
		if err != nil {
			return err
		}
	}
	if t.at == 0 {
		return errNoOutput
	}
	return t.end()
}

// event takes one.
func (t *taking) event(e asciicast.Event, printed func([]byte)) error {
	at, data := t.began.Add(e.After), []byte(e.Data)
	switch e.Kind {
	case asciicast.Output:
		if err := t.add(recording.Output, data, at); err != nil {
			return err
		}
		t.screen.Write(data)
		t.track.Write(data, t.at, at, "", t.ran)
		t.at += int64(len(data))
		printed(data)
		return nil
	case asciicast.Resize:
		var cols, rows int
		if n, _ := fmt.Sscanf(e.Data, "%dx%d", &cols, &rows); n < 2 || cols < 1 || rows < 1 {
			return nil // it changes nothing
		}
		t.screen.Resize(rows, cols)
	case asciicast.Exit:
		if status, err := strconv.Atoi(e.Data); err == nil {
			t.exit = &status
		}
	}
	return t.add(recording.Code(e.Kind), data, at)
}

// ran takes a command that begins or has ended.
func (t *taking) ran(c schemas.TypedCommand) {
	t.commands = max(t.commands, c.Number)
	t.list.add(c)
}

// add adds an event to the segment, or to a new one.
func (t *taking) add(code recording.Code, data []byte, at time.Time) error {
	t.last = at
	if t.seal != nil && (t.data >= takenData || t.seal.Stored() >= takenSealed || t.list.full()) {
		if err := t.commit(); err != nil {
			return err
		}
	}
	if t.seal == nil {
		if err := t.begin(at); err != nil {
			return err
		}
	}
	t.data += int64(len(data))
	t.framed = code == recording.Frame
	return t.seal.Add(recording.Event{Time: at, Code: code, Data: data})
}

// begin begins a segment. All but the first begin with what is shown.
func (t *taking) begin(at time.Time) error {
	t.number++
	f, err := os.OpenFile(segmentFile(t.dir, t.number, ".age"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if t.seal, err = recording.NewWriter(f, t.to, t.at); err != nil {
		return errors.Join(err, f.Close())
	}
	t.open, t.data = f, 0
	if t.number == 1 {
		return nil
	}
	return t.frame(at)
}

// frame adds what is shown, if that isn't too much.
func (t *taking) frame(at time.Time) error {
	paint := screen.Frame(t.screen, takenFrame)
	if paint == nil {
		return nil
	}
	rows, cols := t.screen.Size()
	t.framed = true
	return t.seal.Add(recording.Event{Time: at, Code: recording.Frame, Data: append(fmt.Appendf(nil, "%dx%d\n", cols, rows), paint...)})
}

// end ends the recording, with what was shown last.
func (t *taking) end() error {
	t.track.End(t.at, t.last, t.ran)
	if t.seal == nil {
		if err := t.begin(t.last); err != nil {
			return err
		}
	}
	if !t.framed {
		if err := t.frame(t.last); err != nil {
			return err
		}
	}
	return t.commit()
}

// commit ends the segment. When it returns nil, that is durable.
func (t *taking) commit() error {
	if littleFree(t.dir) {
		return fmt.Errorf("less than %d %% of the host's disk is free", leaveFree)
	}
	body, err := t.seal.Close()
	if err == nil {
		err = t.open.Sync()
	}
	if err == nil {
		body.List, err = t.list.write(segmentFile(t.dir, t.number, ".commands"), t.to)
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(body)
	}
	if err == nil {
		err = writeSynced(segmentFile(t.dir, t.number, ".json"), text)
	}
	err = errors.Join(err, t.open.Close())
	t.open, t.seal, t.list = nil, nil, importedList{}
	return err
}

// discard closes what is open.
func (t *taking) discard() {
	if t.open != nil {
		t.open.Close()
		t.open, t.seal = nil, nil
	}
}

// leaveFree is the part of a disk, in percent, that imports leave free.
const leaveFree = 5

func littleFree(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Bavail < fs.Blocks/100*leaveFree
}

// importedList are the commands of a segment.
type importedList struct {
	lines   [][]byte
	last    int64 // the number of the last one
	size    int
	dropped int
}

// lineCost is what a line takes beside itself, in bytes.
const lineCost = 64

// full reports whether the segment is to end, so that there is room for what comes.
func (l *importedList) full() bool { return l.size >= recording.MaxEntries/2 }

// add adds a command, in place of what it was when it began. One for which there is no room is counted: a program may print any number.
func (l *importedList) add(c schemas.TypedCommand) {
	line, err := recording.Entry(c)
	if err != nil {
		return // it has nothing that can't be encoded
	}
	if k := len(l.lines) - 1; k >= 0 && l.last == c.Number {
		l.size -= len(l.lines[k]) + lineCost
		l.lines = l.lines[:k]
	}
	if l.size+len(line)+lineCost > recording.MaxEntries {
		if !c.Running() { // which is counted when it ends
			l.dropped++
		}
		return
	}
	l.lines, l.last, l.size = append(l.lines, line), c.Number, l.size+len(line)+lineCost
}

// write seals the commands in a file; nil if there are none.
func (l *importedList) write(path string, to age.Recipient) (*recording.List, error) {
	if len(l.lines) == 0 && l.dropped == 0 {
		return nil, nil
	}
	sealed, list, err := recording.SealList(l.lines, l.dropped, to)
	if err != nil {
		return nil, err
	}
	return &list, writeSynced(path, sealed)
}
