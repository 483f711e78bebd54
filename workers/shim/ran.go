package shim

import (
	"os"
	"time"

	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// typedList are commands that were typed, as entries of a list that is to be sealed. More than fit into one are dropped.
type typedList struct {
	entries []entry
	size    int
	dropped int
}

// entry is one of them. One that runs is replaced when it has ended.
type entry struct {
	number  int64
	running bool
	line    []byte
}

// entryCost is what an entry takes beside its line, in bytes: a flood of short ones is bounded, too.
const entryCost = 64

// add adds an entry.
func (l *typedList) add(e entry) {
	if k := len(l.entries) - 1; k >= 0 && l.entries[k].number == e.number {
		if e.running {
			return
		}
		l.size -= len(l.entries[k].line) + entryCost
		l.entries = l.entries[:k]
	}
	if l.size+len(e.line)+entryCost > recording.MaxEntries {
		if !e.running { // which is counted when it ends
			l.dropped++
		}
		return
	}
	l.size += len(e.line) + entryCost
	l.entries = append(l.entries, e)
}

func (l *typedList) empty() bool { return len(l.entries) == 0 && l.dropped == 0 }

// join adds those that came after.
func (l *typedList) join(more typedList) {
	for _, e := range more.entries {
		l.add(e)
	}
	l.dropped += more.dropped
}

// follow has the commands recorded that the output is of. Callers hold mu.
func (w *shown) follow(s backlog.Stream, b []byte) {
	if w.recorder == nil || s != backlog.Out {
		return
	}
	by, _ := w.by.Load().(schemas.MadeBy)
	_, end := w.of.log.Span()
	w.tracker.Write(b, end-int64(len(b)), time.Now(), by, w.recorder.ran)
}

// ends ends the command that runs when the session ends. With what status it ended isn't known.
func (w *shown) ends() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, end := w.of.log.Span()
	w.tracker.End(end, time.Now(), w.recorder.ran)
}

// typed counts the commands that were typed while the terminal was recorded.
func (w *shown) typed() int64 {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tracker.State().Last
}

// typedBy notes who types. Only a person or an agent does.
func (w *shown) typedBy(by schemas.MadeBy) {
	if w != nil && (by == schemas.MadeByPerson || by == schemas.MadeByAgent) {
		w.by.Store(by)
	}
}

// ran takes a command that begins or has ended. It goes with what its terminal shows of that.
func (r *recorder) ran(c schemas.TypedCommand) {
	if r == nil {
		return
	}
	line, err := recording.Entry(r.secrets.command(c))
	if err != nil {
		return // it has nothing that can't be encoded
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.list.add(entry{c.Number, c.Running(), line})
	}
}

// writeList seals the commands beside the segment. Those that can't be written wait for the next one: it gives nil then, and if there are
// none.
func (s *spill) writeList() *recording.List {
	if s.list.empty() {
		return nil
	}
	lines := make([][]byte, len(s.list.entries))
	for i, e := range s.list.entries {
		lines[i] = e.line
	}
	sealed, l, err := recording.SealList(lines, s.list.dropped, s.to)
	if err != nil {
		return nil
	}
	f, err := os.OpenFile(s.name(s.number, listPart), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil
	}
	_, err = f.Write(sealed)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err != nil || closeErr != nil {
		_ = os.Remove(s.name(s.number, listPart)) // its body doesn't name it
		return nil
	}
	return &l
}
