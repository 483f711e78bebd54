package shim

import (
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// recorder records what the terminal of the main command shows. What comes is kept in memory, and
// sealed and spilled behind it: seconds later, or when it is much. Nothing waits for a disk, but for the reader of the
// terminal when far more comes than can be sealed. It does nothing while nothing comes. A nil recorder records nothing.
type recorder struct {
	input   bool
	secrets *secrets // nil: they are recorded, too
	spill   *spill
	settled func()

	mu     sync.Mutex
	data   []byte
	marks  []recorded
	list   typedList // commands that aren't spilled yet
	began  time.Time // when the first of them came
	at     int64     // position in the output
	timer  *time.Timer
	armed  bool
	wait   time.Duration // until what comes is sealed
	last   time.Time     // when the timer ran out last
	busy   bool          // it is being sealed
	worth  bool          // what came is worth a segment
	fresh  bool          // the next output begins a segment, or follows on a gap: what the terminal shows may come first
	lacks  bool          // something is missing since the last frame, or there is none: the next one is due
	framed int64         // where the last frame was, a position in the output
	bare   int           // segments that have ended since that one began
	quiet  bool          // it was told to stop: how it ended isn't recorded
	closed bool
	late   bool          // the disk took nothing for so long that nothing waits for it
	room   chan struct{} // closed when there is room again

	work sync.Mutex // held while what came is sealed
}

// recorded is an event that isn't sealed yet.
type recorded struct {
	after time.Duration // since the first
	code  recording.Code
	n     int   // bytes of data; of a gap, those that it stands for
	at    int64 // position in the output where it is
}

// What came is sealed when it is recordSoft bytes, the reader of the terminal waits at recordFull, at most roomWait, and what
// comes beyond recordMost isn't recorded.
const (
	recordSoft = 64 << 10
	recordFull = 192 << 10
	recordMost = 512 << 10
	roomWait   = time.Second
	// What the terminal shows is recorded in at most frameMost bytes. Below recordFull there is room for it.
	frameMost = 256 << 10
	// It is recorded again after frameEach bytes of output, or frameLeast segments: a terminal of which little comes costs no more for
	// that, and one who begins to read in the middle reads little before.
	frameEach  = 64 << 10
	frameLeast = 8
)

// Pieces of output that come so close together are one event.
const together = 2 * time.Millisecond

// What comes is sealed so much later; later while more comes all the time, so that segments aren't small.
const (
	sealSoon = 3 * time.Second
	sealLate = 30 * time.Second
)

// record has the command's terminal recorded, if the setup says so. The command doesn't run yet.
func (c *command) record(setup Setup) error {
	if setup.Record == nil || c.shown == nil {
		return nil
	}
	s, err := openSpill(*setup.Record)
	if err != nil {
		return err
	}
	_, end := c.log.Span()
	r := &recorder{at: end, input: setup.Record.Input, spill: s, wait: sealSoon, settled: func() {}, fresh: end > 0, lacks: end > 0}
	if setup.Record.Redact {
		r.secrets = newSecrets(c.log)
	}
	r.timer = time.AfterFunc(time.Hour, r.due)
	r.timer.Stop()
	c.shown.recorder = r
	c.shown.recorder.resized(c.shown.size())
	return nil
}

// recorder gives the one of the command's terminal.
func (c *command) recorder() *recorder {
	if c.shown == nil {
		return nil
	}
	return c.shown.recorder
}

// settles has f called whenever something was sealed.
func (r *recorder) settles(f func()) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = f
}

func (r *recorder) output(s backlog.Stream, b []byte) {
	code := recording.Output
	if s == backlog.Err {
		code = recording.Errors
	}
	r.add(code, b, true)
}

// frame records what the terminal shows, if the output that comes next begins a segment and the last frame is far off, or something is
// missing before it: so a reader can begin there. A terminal that shows too much has none; one for which there is no room now has it later.
func (r *recorder) frame(of *screen.Screen) {
	if r == nil {
		return
	}
	r.mu.Lock()
	due := r.lacks || r.at-r.framed >= frameEach || r.bare >= frameLeast
	wanted := r.fresh && due && !r.closed && r.held() < recordFull
	r.fresh = r.fresh && due && !wanted
	if wanted { // before it is: what is lost meanwhile may be this one
		r.lacks, r.framed, r.bare = false, r.at, 0
	}
	r.mu.Unlock()
	if wanted && !r.painted(of) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lacks = true
	}
}

// painted records what the terminal shows, if that isn't too much.
func (r *recorder) painted(of *screen.Screen) bool {
	rows, cols := of.Size()
	paint := screen.Frame(of, frameMost)
	if paint != nil {
		r.add(recording.Frame, append([]byte(sizeText(attach.Size{Rows: uint16(rows), Cols: uint16(cols)})+"\n"), paint...), false)
	}
	return paint != nil
}

// typed records input that the session has taken, which shows says that the terminal showed.
func (r *recorder) typed(b []byte, shows bool) {
	if r != nil && r.input && len(b) > 0 {
		r.mu.Lock()
		b = r.secrets.unseen(b, shows)
		r.mu.Unlock()
		r.add(recording.Input, b, true)
	}
}

// shows reports whether a command's terminal shows what is typed, where that matters.
func (r *recorder) shows(of *terminal) bool {
	return r == nil || !r.input || r.secrets == nil || of == nil || of.shows()
}

func (r *recorder) resized(s attach.Size) {
	r.add(recording.Resize, []byte(sizeText(s)), false)
}

// sizeText is a size as recordings have it.
func sizeText(s attach.Size) string {
	return strconv.Itoa(int(s.Cols)) + "x" + strconv.Itoa(int(s.Rows))
}

// add takes an event. later has it sealed soon; else it goes with what comes next.
func (r *recorder) add(code recording.Code, b []byte, later bool) {
	if r == nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if len(r.marks) == 0 {
		r.began = now
	}
	full := r.held()+len(b) > recordMost
	moves := code == recording.Output || code == recording.Errors
	if code == recording.Resize {
		r.unsized()
	}
	switch {
	case full && !moves:
		return
	case full:
		code, r.fresh, r.lacks = recording.Gap, true, true
	default:
		r.data = append(r.data, b...)
	}
	r.mark(now.Sub(r.began), code, len(b))
	if moves {
		r.at += int64(len(b))
		r.secrets.came(b)
	}
	if later {
		r.worth = true
		r.arm(now)
	}
}

// markSize is what a mark takes, in bytes.
const markSize = int(unsafe.Sizeof(recorded{}))

// held is how much memory is taken by what isn't sealed; callers hold mu.
func (r *recorder) held() int { return len(r.data) + len(r.marks)*markSize }

// unsized drops the last event if it is a size: another one follows on it; callers hold mu.
func (r *recorder) unsized() {
	if k := len(r.marks) - 1; k >= 0 && r.marks[k].code == recording.Resize {
		r.data = r.data[:len(r.data)-r.marks[k].n]
		r.marks = r.marks[:k]
	}
}

// mark notes an event, of which the data was added; callers hold mu.
func (r *recorder) mark(after time.Duration, code recording.Code, n int) {
	if k := len(r.marks) - 1; k >= 0 && r.marks[k].code == code && code != recording.Resize && (after-r.marks[k].after < together || code == recording.Gap) {
		r.marks[k].n += n
		return
	}
	r.marks = append(r.marks, recorded{after, code, n, r.at})
}

// arm sees to it that what came is sealed; callers hold mu.
func (r *recorder) arm(now time.Time) {
	switch {
	case r.busy:
	case r.held() >= recordSoft:
		r.busy = true
		go r.pack()
	case !r.armed:
		if now.Sub(r.last) > 2*sealLate {
			r.wait = sealSoon
		}
		r.armed = true
		r.timer.Reset(r.wait)
	}
}

// due seals what came when it is time.
func (r *recorder) due() {
	r.mu.Lock()
	if r.secrets.typing(r.marks, r.data, func(m recorded) time.Duration { return time.Since(r.began.Add(m.after)) }) {
		r.secrets.waits++
		r.timer.Reset(r.secrets.patience)
		r.mu.Unlock()
		return
	}
	r.armed, r.last, r.wait = false, time.Now(), min(2*r.wait, sealLate)
	r.mu.Unlock()
	if r.work.TryLock() {
		defer r.work.Unlock()
		_ = r.sealAll(false) // what can't be spilled is a gap
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed { // nothing piles up behind a disk that hangs
		r.arm(time.Now())
	}
}

// roomFor waits until what comes can be recorded, but not for long. It is called before the terminal is read.
func (r *recorder) roomFor() {
	if r == nil {
		return
	}
	r.mu.Lock()
	if r.held() < recordFull || r.late || r.closed {
		r.mu.Unlock()
		return
	}
	if r.room == nil {
		r.room = make(chan struct{})
	}
	room := r.room
	r.mu.Unlock()
	late := time.NewTimer(roomWait)
	defer late.Stop()
	select {
	case <-room:
	case <-late.C:
		r.mu.Lock()
		r.late = r.room == room
		r.mu.Unlock()
	}
}

// take gives what came since the last call, without secrets if there are to be none, and has the commands of that spilled, too. ends
// says that the segment ends with it, holds that a line may wait for its end. Callers hold work.
func (r *recorder) take(ends, holds bool) (marks []recorded, data []byte, began time.Time) {
	marks, data, began, released := r.takeAll(ends, holds)
	r.secrets.take(marks, data, released)
	return marks[:released], data[:sizeOf(marks[:released])], began
}

// takeAll gives what came since the last call, and how many of the marks go on. The others stay, and come once more.
func (r *recorder) takeAll(ends, holds bool) (marks []recorded, data []byte, began time.Time, released int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	marks, data, began, released = r.marks, r.data, r.began, len(r.marks)
	r.spill.list.join(r.list) // together with the output: a segment has the commands that began or ended in it
	r.list = typedList{}
	r.marks, r.data, r.worth, r.late = nil, nil, false, false
	if r.secrets != nil {
		r.secrets.waits = 0
	}
	if holds {
		marks, released = r.secrets.split(marks, data)
	}
	if ends && (released > 0 || r.spill.open != nil) {
		r.fresh, r.bare = true, r.bare+1
	}
	if released < len(marks) {
		each(marks[released:], data[sizeOf(marks[:released]):], func(_ int, _ recorded, b []byte) { r.data = append(r.data, b...) })
		r.marks, r.worth = slices.Clone(marks[released:]), len(r.data) > 0
	}
	if r.room != nil {
		close(r.room)
		r.room = nil
	}
	return marks, data, began, released
}

// pack compresses and encrypts what came, until it isn't much any more. The segment goes on, if it isn't full.
func (r *recorder) pack() {
	for more := true; more; {
		r.work.Lock()
		ends := r.spill.full(time.Now())
		err := r.spill.add(r.take(ends, true))
		if err == nil && ends {
			err = r.spill.commit()
		}
		r.work.Unlock()
		r.mu.Lock()
		r.lost(err)
		if more = r.held() >= recordSoft; !more {
			r.busy = false
			r.arm(time.Now()) // the timer ends the segment
		}
		r.mu.Unlock()
	}
}

// seal spills all that came. When it returns nil, that is durable.
func (r *recorder) seal() error { return r.sealed(false) }

// sealed is seal, but with holds a line may wait for its end.
func (r *recorder) sealed(holds bool) error {
	if r == nil {
		return nil
	}
	r.work.Lock()
	defer r.work.Unlock()
	return r.sealAll(holds)
}

// sealAll is sealed; callers hold work.
func (r *recorder) sealAll(holds bool) error {
	r.mu.Lock()
	worth := r.worth || r.spill.open != nil || len(r.marks) > 0 && !(r.list.empty() && r.spill.list.empty())
	r.mu.Unlock()
	if !worth {
		return nil
	}
	err := r.spill.add(r.take(true, holds))
	if err == nil {
		err = r.spill.commit()
	}
	r.mu.Lock()
	r.lost(err)
	settled := r.settled
	if r.worth && !r.closed {
		r.arm(time.Now())
	}
	r.mu.Unlock()
	settled()
	return err
}

// lost notes that what can't be spilled is a gap; callers hold mu.
func (r *recorder) lost(err error) {
	if err != nil {
		r.fresh, r.lacks = true, true
	}
}

// sealing begins to spill what came, and gives what waits for it, but no longer than most. What a disk doesn't take is no reason to keep a
// session from being suspended.
func (r *recorder) sealing() (wait func(most time.Duration) (done bool)) {
	return began(func() { _ = r.seal() })
}

// stuckWait bounds the wait for a disk that takes nothing. It is below stopWait: a session has ended even then. frozenWait bounds it while
// the session stands still, when there is little to write: what a disk doesn't take in that time is missing from the recording.
const (
	stuckWait  = 30 * time.Second
	frozenWait = 5 * time.Second
)

// began runs f, and gives what waits for it, and says whether it is done.
func began(f func()) (wait func(most time.Duration) bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func(most time.Duration) bool {
		late := time.NewTimer(most)
		defer late.Stop()
		select {
		case <-done:
			return true
		case <-late.C:
			return false
		}
	}
}

// ended records what the terminal showed last, and how the session ended.
func (r *recorder) ended(exit schemas.ExitStatus, last *shown) {
	if r == nil {
		return
	}
	r.mu.Lock()
	quiet := r.quiet
	r.mu.Unlock()
	began(func() {
		last.ends()
		if !quiet {
			_ = r.seal() // so that there is room for what follows
			last.mu.Lock()
			r.painted(last.screen)
			last.mu.Unlock()
			r.add(recording.Exit, []byte(strconv.Itoa(exit.Code)), true)
		}
		r.close()
	})(stuckWait)
}

// stopped says that the session is stopped: what it still shows is recorded, but not how it ended.
func (r *recorder) stopped() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quiet = true
}

// close spills all that came, and records nothing more.
func (r *recorder) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	closed := r.closed
	r.closed = true
	r.timer.Stop()
	r.mu.Unlock()
	if !closed {
		_ = r.seal() // the session is over
	}
}

// writeRecorded writes to a terminal and records what it took.
func (c *command) writeRecorded(fd int, b []byte) (int, error) {
	shows := c.recorder().shows(c.tty)
	n, err := unix.Write(fd, b)
	c.recorder().typed(b[:max(n, 0)], shows)
	return n, err
}
