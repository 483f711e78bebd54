package shim

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/redact"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// secrets takes secrets out of what is recorded, before it is sealed. A secret may come in parts: the last line waits for its end
// where it can, and what was before is looked at once more. A nil one takes nothing out. Its user serialises all calls, but for held.
type secrets struct {
	before []byte // output, as it was
	line   []byte // the end of what came last

	waits    int           // how often the seal was put off
	patience time.Duration // how long it is, while a line is being typed
}

// So much output is looked at once more, in bytes, and so much of the last line waits at most, in so many parts: that is less than
// recordSoft, in which what waits is sealed at once.
const (
	lookedBack = 8 << 10
	lineWaits  = 8 << 10
	partsWait  = 512
)

// newSecrets goes on after what a command printed, maybe in another run: it may end within a secret.
func newSecrets(log *backlog.Log) *secrets {
	s := &secrets{patience: putOff}
	_, end := log.Span()
	for at := log.Tail(lookedBack); at < end; {
		of, b, next, err := log.Next(context.Background(), at)
		if err != nil {
			break // less is known
		}
		if of == backlog.Out {
			s.keep(b)
		}
		s.came(b)
		at = next
	}
	return s
}

// A seal is put off for so long while a line is being typed, at most so often.
const (
	putOff     = 2 * time.Second
	putOffMost = 15
)

// held gives how much at the end of what came waits for the end of its line: so many marks, of which the first is cut there.
func (s *secrets) held(marks []recorded, data []byte) (from, cut int) {
	if s == nil {
		return len(marks), 0
	}
	end := len(data)
	for i := len(marks) - 1; i >= 0; i-- {
		m := marks[i]
		if m.code == recording.Gap {
			return i + 1, 0
		}
		if m.code == recording.Frame && len(data)-end+m.n > lineWaits {
			return i + 1, 0 // as much as that doesn't wait
		}
		end -= m.n
		n := 0
		if m.code == recording.Output {
			n = bytes.LastIndexByte(data[end:end+m.n], '\n') + 1
		}
		switch {
		case n > 0 && n == m.n:
			return i + 1, 0
		case n > 0 && len(data)-end-n <= lineWaits:
			return i, n
		case len(data)-end > lineWaits, len(marks)-i > partsWait:
			return len(marks), 0
		}
	}
	return 0, 0
}

// split gives the marks, the one that is cut as two, and how many don't wait.
func (s *secrets) split(marks []recorded, data []byte) (all []recorded, released int) {
	from, cut := s.held(marks, data)
	if cut == 0 {
		return marks, from
	}
	first, second := marks[from], marks[from]
	first.n, second.n, second.at = cut, second.n-cut, second.at+int64(cut)
	return slices.Concat(marks[:from], []recorded{first, second}, marks[from+1:]), from + 1
}

// sizeOf is how much data marks have, in bytes.
func sizeOf(marks []recorded) (n int) {
	for _, m := range marks {
		if m.code != recording.Gap {
			n += m.n
		}
	}
	return n
}

// typing reports whether what came ends within a line, that came just now. Callers give it the last mark.
func (s *secrets) typing(marks []recorded, data []byte, age func(recorded) time.Duration) bool {
	if s == nil || len(marks) == 0 || len(data) == 0 || s.waits >= putOffMost {
		return false
	}
	from, cut := s.held(marks, data)
	return (from < len(marks) || cut > 0) && age(marks[len(marks)-1]) < s.patience
}

// take takes secrets out of data, that of the first released marks; the others are looked at, and stay as they are.
func (s *secrets) take(marks []recorded, data []byte, released int) {
	if s == nil {
		return
	}
	for _, code := range []recording.Code{recording.Output, recording.Errors, recording.Input, recording.Frame} {
		var found []redact.Range
		f := redact.NewFinder(redact.Secrets, func(r redact.Range, _ bool) { found = append(found, r) })
		at := int64(0)
		if code == recording.Output {
			f.Write(s.before)
			at = int64(len(s.before))
		}
		each(marks, data, func(_ int, m recorded, b []byte) {
			if m.code == code {
				f.Write(b)
			}
		})
		f.End()
		found = redact.Merge(found)
		each(marks, data, func(i int, m recorded, b []byte) {
			if m.code != code || i >= released {
				return
			}
			if code == recording.Output {
				s.keep(b)
			}
			redact.Mask(b, at, found)
			at += int64(len(b))
		})
	}
}

// keep notes output before secrets are taken out of it.
func (s *secrets) keep(b []byte) {
	s.before = append(s.before, b...)
	if n := len(s.before) - lookedBack; n > 0 {
		s.before = append(s.before[:0], s.before[n:]...)
	}
}

// each calls fn with the data of each mark.
func each(marks []recorded, data []byte, fn func(i int, m recorded, b []byte)) {
	for i, m := range marks {
		if m.code != recording.Gap {
			fn(i, m, data[:m.n])
			data = data[m.n:]
		}
	}
}

// command takes secrets out of the text of a command.
func (s *secrets) command(c schemas.TypedCommand) schemas.TypedCommand {
	if s != nil {
		c.Text, c.Dir = redact.Text(c.Text), redact.Text(c.Dir)
	}
	return c
}

// came notes output that came.
func (s *secrets) came(b []byte) {
	if s == nil {
		return
	}
	if s.line = append(s.line, b[max(len(b)-promptSize, 0):]...); len(s.line) > promptSize {
		s.line = append(s.line[:0], s.line[len(s.line)-promptSize:]...)
	}
}

// promptSize bounds what is looked at of a prompt, in bytes.
const promptSize = 200

// prompt ends with a question for a password.
var prompt = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:password|passphrase|passcode|\bpin|verification code)[^\n]{0,100}[:?]\s*(?:\x1b\[[0-9;]*m)*\s*$`)
})

// unseen gives input as it is recorded: of what is typed while the terminal, or a program after a prompt for a password, shows none
// of it, only the line ends.
func (s *secrets) unseen(b []byte, shows bool) []byte {
	if s == nil || shows && !prompt().Match(s.line) {
		return b
	}
	b = bytes.Clone(b)
	for i, c := range b {
		if c != '\r' && c != '\n' {
			b[i] = '*'
		}
	}
	return b
}

// shows reports whether a terminal shows what is typed. Where programs read single characters, as shells do, these show it
// themselves.
func (t *terminal) shows() bool {
	is, err := unix.IoctlGetTermios(t.slaveFD, unix.TCGETS)
	return err != nil || is.Lflag&unix.ECHO != 0 || is.Lflag&unix.ICANON == 0
}
