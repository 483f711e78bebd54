package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/marks"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/schemas"
)

// shown is what the terminal of the main command shows, in step with the command's backlog. It answers what the
// program asks of its terminal while those who watch don't, and others aren't there.
type shown struct {
	of       *command
	recorder *recorder // nil: it isn't recorded

	mu       sync.Mutex
	screen   *screen.Screen
	watchers int // clients with a Screen
	others   int // clients whose own terminal answers
	gate     *gate
	owed     []byte // answers
	sending  bool
	tracker  marks.Tracker // follows the shell while the terminal is recorded
	by       atomic.Value  // schemas.MadeBy: who typed last
}

// maxOwed bounds the answers that the program hasn't taken, in bytes: more are dropped.
const maxOwed = 4 << 10

func newShown(of *command, size attach.Size) *shown {
	return &shown{of: of, screen: screen.New(int(size.Rows), int(size.Cols)), tracker: marks.Tracker{Line: screen.TypedLine}}
}

// took takes output of the command.
func (c *command) took(s backlog.Stream, b []byte) {
	if c.shown == nil {
		c.log.Append(s, b)
		return
	}
	c.shown.take(s, b)
}

func (w *shown) take(s backlog.Stream, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of.log.Append(s, b)
	w.recorder.frame(w.screen)
	w.follow(s, b) // before the output: what is sealed with that has all commands in it
	w.recorder.output(s, b)
	answers := w.screen.Write(b)
	if w.watchers > 0 && w.others == 0 && len(w.owed)+len(answers) <= maxOwed {
		w.owed = append(w.owed, answers...)
		w.push()
	}
}

// push has the answers written; callers hold mu. What isn't written when the session ends went with it.
func (w *shown) push() {
	if len(w.owed) == 0 || w.sending || w.gate == nil {
		return
	}
	w.sending = true
	go func(all []byte) {
		_ = w.of.pass(context.Background(), w.gate, all, w.put)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sending = false
		w.push()
	}(append([]byte(nil), w.owed...))
}

// put writes some of what is owed.
func (w *shown) put(fd int, b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := unix.Write(fd, b)
	w.owed = w.owed[max(n, 0):]
	return n, err
}

// join counts a client: one that watches, or one whose own terminal answers.
func (w *shown) join(g *gate, watches bool) (leave func()) {
	if w == nil {
		return func() {}
	}
	count := &w.others
	if watches {
		count = &w.watchers
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = g
	*count++
	w.push()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		*count--
	}
}

// resize changes the size of the command's terminal, and of what it shows.
func (c *command) resize(s attach.Size) error {
	if c.shown == nil || s.Rows == 0 || s.Cols == 0 {
		return c.tty.resize(s)
	}
	c.shown.mu.Lock()
	defer c.shown.mu.Unlock()
	was := c.shown.sizeNow()
	c.shown.screen.Resize(int(s.Rows), int(s.Cols))
	if is := c.shown.sizeNow(); is != was { // the screen has a largest size
		c.shown.recorder.resized(is)
	}
	return c.tty.resize(s)
}

// paint gives the screen as it is now.
func (w *shown) paint() (attach.Screen, []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.screen.Paint()
	return attach.Screen{Size: w.sizeNow(), At: w.screen.Offset(), Paint: len(b), Dropped: w.screen.Dropped()}, b
}

func (w *shown) sizeNow() attach.Size {
	rows, cols := w.screen.Size()
	return attach.Size{Rows: uint16(rows), Cols: uint16(cols)}
}

func (w *shown) size() attach.Size {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sizeNow()
}

// savedShown is what an image holds of what a terminal shows.
type savedShown struct {
	Paint   string `json:"paint"` // file
	Answers []byte `json:"answers,omitempty"`
	attach.Screen
	Marks marks.State `json:"marks,omitzero"` // of its shell
}

func (saved *savedCommand) keepShown(dir string, n int, w *shown) error {
	if w == nil {
		return nil
	}
	head, paint := w.paint()
	w.mu.Lock()
	defer w.mu.Unlock()
	saved.Shown = &savedShown{Paint: fmt.Sprintf("screen.%d", n), Answers: w.owed, Screen: head, Marks: w.tracker.State()}
	if err := os.WriteFile(filepath.Join(dir, saved.Shown.Paint), paint, 0o600); err != nil {
		return fmt.Errorf("save what a terminal shows: %w", err)
	}
	return nil
}

// keptShown gives what c's terminal showed. An image of an older version has the output alone.
func (saved savedCommand) keptShown(dir string, c *command) (*shown, error) {
	w := newShown(c, windowOf(0, 0))
	at, end := c.log.Span()
	if was := saved.Shown; was != nil {
		paint, err := os.ReadFile(filepath.Join(dir, filepath.Base(was.Paint)))
		if err != nil {
			return nil, fmt.Errorf("read what a terminal showed: %w", err)
		}
		w = newShown(c, was.Size)
		w.owed = was.Answers
		w.screen.Write(paint)
		if was.At < at || was.At > end {
			return nil, errors.New("read what a terminal showed: it isn't part of the output")
		}
		at = was.At
		w.screen.Resume(at, was.Dropped)
		w.tracker.Resume(was.Marks)
	} else {
		w.screen.Resume(at, 0)
	}
	for at < end {
		_, b, next, err := c.log.Next(context.Background(), at)
		if err != nil {
			return nil, err
		}
		w.screen.Write(b) // what it asks for was answered, or not, before
		if saved.Shown != nil {
			w.tracker.Write(b, at, time.Time{}, "", func(schemas.TypedCommand) {}) // a mark of which a part was printed
		}
		at = next
	}
	return w, nil
}
