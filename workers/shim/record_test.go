package shim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// recorderBench is a recorder with the key of what it spills.
type recorderBench struct {
	*recorder
	t   testing.TB
	of  *command
	dir string
	key *age.X25519Identity
}

func newRecorderBench(t testing.TB) *recorderBench {
	t.Helper()
	b := &recorderBench{t: t, dir: filepath.Join(t.TempDir(), "uid", "run")}
	key, objects, err := image.NewKey("acme", "lin1", image.Readers{Recipients: []age.Recipient{b.identity().Recipient()}, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := age.Decrypt(bytes.NewReader(objects[0].Data), b.key)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := age.ParseIdentities(opened)
	if err != nil {
		t.Fatal(err)
	}
	b.key = ids[0].(*age.X25519Identity)
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, driver.RunFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCommand(backlog.New(100), false)
	c.shown = newShown(c, attach.Size{Rows: 24, Cols: 80})
	c.log.Append(backlog.Out, []byte("before "))
	if err := c.record(Setup{Record: &driver.Recording{Dir: b.dir, Key: key}}); err != nil {
		t.Fatal(err)
	}
	b.recorder, b.of = c.recorder(), c
	b.spill.few = func() bool { return false }
	t.Cleanup(func() { b.close(); b.spill.lock.Close() })
	return b
}

func (b *recorderBench) identity() *age.X25519Identity {
	b.t.Helper()
	var err error
	if b.key, err = age.GenerateX25519Identity(); err != nil {
		b.t.Fatal(err)
	}
	return b.key
}

// spilled gives what the complete segments have, as lines of events, and where they begin.
func (b *recorderBench) spilled() (text string, bodies []recording.Body) {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.dir, "*"+bodyPart))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, name := range files {
		var body recording.Body
		data, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(data, &body)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		sealed, err := os.Open(strings.TrimSuffix(name, bodyPart) + sealedPart)
		if err != nil {
			b.t.Fatal(err)
		}
		defer sealed.Close()
		err = recording.Decode(sealed, body, b.key, func(e recording.Event) error {
			text += fmt.Sprintf("%s%s;", e.Code, e.Data)
			return nil
		})
		if err != nil {
			b.t.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	return text, bodies
}

func TestRecords(t *testing.T) {
	b := newRecorderBench(t)
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	if text, _ := b.spilled(); text != "" {
		t.Errorf("before anything came it is %q", text)
	}
	b.output(backlog.Out, []byte("one"))
	b.typed([]byte("not recorded"), true)
	b.output(backlog.Err, []byte("hook"))
	b.resized(attach.Size{Rows: 2, Cols: 3})
	b.sealing()(stuckWait)
	b.output(backlog.Out, []byte("two"))
	b.ended(schemas.ExitStatus{Code: 3}, newShown(newCommand(backlog.New(100), false), attach.Size{Rows: 2, Cols: 3}))
	b.output(backlog.Out, []byte("after its end"))
	b.close()
	text, bodies := b.spilled()
	frame := regexp.MustCompile(`k3x2\n[^;]*(;[^;]*)*?;x`).FindString(text)
	if want := "r80x24;oone;ehook;r3x2;otwo;x3;"; frame == "" || strings.Replace(text, frame, "x", 1) != want {
		t.Errorf("it is %q, want %q", text, want)
	}
	at := int64(len("before "))
	for _, body := range bodies {
		if body.Start != at {
			t.Errorf("a segment begins at %d, the last ended at %d", body.Start, at)
		}
		at = body.End
	}
}

// Of sizes that follow on each other the last counts, and what terminals are bounded to.
func TestRecordsSizes(t *testing.T) {
	b := newRecorderBench(t)
	b.of.tty = testTerminal(t)
	for cols := range uint16(1000) {
		if err := b.of.resize(attach.Size{Rows: 1000, Cols: 2000 + cols}); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.marks) != 1 || b.held() > 1000 {
		t.Errorf("%d events take %d bytes", len(b.marks), b.held())
	}
	b.output(backlog.Out, []byte("one"))
	b.resized(attach.Size{Rows: 2, Cols: 3})
	b.resized(attach.Size{Rows: 4, Cols: 5})
	b.stopped()
	b.output(backlog.Out, []byte("last"))
	b.ended(schemas.ExitStatus{Code: 3}, b.of.shown)
	text, _ := b.spilled()
	if want := fmt.Sprintf("r%s;oone;r5x4;olast;", sizeText(b.of.shown.size())); text != want {
		t.Errorf("it is %q, want %q", text, want)
	}
}

// While nothing can be sealed, memory is bounded by what events take, too; and one wait for room is enough.
func TestRecordsWhileStuck(t *testing.T) {
	b := newRecorderBench(t)
	b.work.Lock() // nothing is sealed
	b.input = true
	for range recordMost {
		b.typed([]byte("x"), true)
		b.output(backlog.Out, []byte("y"))
	}
	b.mu.Lock()
	held, codes := b.held(), len(b.marks)
	b.mu.Unlock()
	if held > recordMost+2*markSize || codes < 100 {
		t.Errorf("%d events take %d bytes", codes, held)
	}
	b.roomFor()
	b.mu.Lock()
	late := b.late
	b.mu.Unlock()
	if !late {
		t.Error("it waits for room each time")
	}
	b.work.Unlock()
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	if b.take(false, false); b.late {
		t.Error("it never waits again")
	}
}

// The timer seals what came, and doesn't run before or after.
func TestSealsLater(t *testing.T) {
	b := newRecorderBench(t)
	if b.armed {
		t.Error("the timer runs although nothing came")
	}
	sealed := make(chan struct{}, 1)
	b.settles(func() { sealed <- struct{}{} })
	b.wait, b.last = time.Millisecond, time.Now()
	b.output(backlog.Out, []byte("one"))
	<-sealed
	b.mu.Lock()
	if b.armed || b.data != nil || b.wait != 2*time.Millisecond {
		t.Errorf("after that the timer runs: %t, it holds %q", b.armed, b.data)
	}
	b.mu.Unlock()
	if text, _ := b.spilled(); text != "r80x24;oone;" {
		t.Errorf("it is %q", text)
	}
}

// A flood is recorded whole, if it waits as the reader of a terminal does; and takes little memory.
func TestRecordsFlood(t *testing.T) {
	b := newRecorderBench(t)
	b.spill.most = 1 << 40
	line := []byte(strings.Repeat("0123456789abcdef", 256))
	for range 1024 {
		b.roomFor()
		b.output(backlog.Out, line)
		b.mu.Lock()
		if len(b.data) > recordMost {
			t.Errorf("it holds %d bytes", len(b.data))
		}
		b.mu.Unlock()
	}
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	text, _ := b.spilled()
	if got := strings.Count(text, "0123456789abcdef"); got+strings.Count(text, ";")/2 < 1024*256-1024 || strings.Contains(text, "g") {
		t.Errorf("%d pieces came back", got)
	}
}

// What can't be kept is a gap, in the middle of what is.
func TestRecordsGap(t *testing.T) {
	b := newRecorderBench(t)
	b.work.Lock() // nothing is sealed
	b.output(backlog.Out, []byte("one"))
	b.output(backlog.Out, bytes.Repeat([]byte("x"), recordMost))
	b.output(backlog.Out, bytes.Repeat([]byte("y"), 7))
	b.work.Unlock()
	b.output(backlog.Out, []byte("z"))
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	if text, _ := b.spilled(); !strings.HasPrefix(text, "r80x24;oone;g524288;o") || !strings.Contains(strings.ReplaceAll(text, ";o", ""), "yyyyyyyz;") {
		t.Errorf("it is %.100q", text)
	}
}

// A disk that takes nothing costs what came then, and nothing that was sealed before or after.
func TestRecordsWithoutDisk(t *testing.T) {
	b := newRecorderBench(t)
	b.output(backlog.Out, []byte("one"))
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	right := b.spill.dir
	b.spill.dir = filepath.Join(right, "not there")
	b.output(backlog.Out, []byte("two"))
	if err := b.seal(); err == nil {
		t.Error("what isn't spilled counts as that")
	}
	b.spill.dir = right
	b.output(backlog.Out, []byte("three"))
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	text, bodies := b.spilled()
	if text != "r80x24;oone;othree;" || bodies[1].Start != bodies[0].End+3 {
		t.Errorf("it is %q, %+v", text, bodies)
	}
}

// shows has the terminal show output, which is recorded.
func (b *recorderBench) shows(text string) { b.of.took(backlog.Out, []byte(text)) }

// segment has what comes next begin one.
func (b *recorderBench) segment() {
	b.t.Helper()
	if err := b.seal(); err != nil {
		b.t.Fatal(err)
	}
}

// A segment of which output comes begins with what the terminal shows, if that is due, also within a sequence; one that shows too much has none.
func TestRecordsFrames(t *testing.T) {
	b := newRecorderBench(t)
	b.fresh, b.lacks = false, false                       // as at the beginning
	b.wait, b.last = time.Hour, time.Now().Add(time.Hour) // the timer seals nothing
	b.shows("one\x1b[3")
	b.segment()
	b.resized(attach.Size{Rows: 24, Cols: 80})
	b.segment() // of an idle session there is no frame
	b.bare = frameLeast
	b.shows("1mred\r\nmore")
	b.segment()
	b.of.shown.screen.Resize(100, 200)
	for i := range 100 * 200 {
		b.of.shown.screen.Write(fmt.Appendf(nil, "\x1b[38;2;200;200;20%dmx", i%2))
	}
	b.bare = frameLeast
	b.shows("large")
	b.segment()
	b.shows("still large")
	b.ended(schemas.ExitStatus{}, b.of.shown)
	text, _ := b.spilled()
	frame := regexp.MustCompile(`k80x24\n(?s:.*?);o1mred`).FindString(text)
	if want := "r80x24;oone\x1b[3;r80x24;F\r\nmore;olarge;ostill large;x0;"; strings.Replace(text, frame, "F", 1) != want {
		t.Errorf("it is %.4000q, want %q", text, want)
	}
	_, paint, _ := strings.Cut(frame, "\n")
	s := screen.New(24, 80)
	s.Write([]byte(strings.Replace(paint, ";o1mred", "1mred", 1)))
	if got := screen.HTML(s); !strings.Contains(got, `one<span style="color:#cd0000">red</span>`) {
		t.Errorf("it shows %s", got)
	}
}

// Where output is missing a frame follows as soon as there is room.
func TestRecordsFrameAfterGap(t *testing.T) {
	b := newRecorderBench(t)
	b.fresh, b.lacks = false, false
	b.work.Lock() // nothing is sealed
	b.shows("one")
	b.shows(strings.Repeat("x", recordMost))
	b.work.Unlock()
	b.shows("two")
	b.segment()
	if text, _ := b.spilled(); !regexp.MustCompile(`^r80x24;oone;g524288;k80x24\n(?s:.*);otwo;$`).MatchString(text) {
		t.Errorf("it is %.100q", text)
	}
}

// A terminal of which little comes costs little: what it shows isn't recorded again in each segment, but often enough, and after much output.
func TestRecordsFewFrames(t *testing.T) {
	b := newRecorderBench(t)
	b.fresh, b.lacks = false, false                       // as at the beginning
	b.wait, b.last = time.Hour, time.Now().Add(time.Hour) // the timer seals nothing
	frames := func() int {
		text, _ := b.spilled()
		return strings.Count(text, "k80x24\n")
	}
	for range 4*frameLeast + 1 {
		b.shows("x")
		b.segment()
	}
	if got := frames(); got != 4 {
		t.Errorf("%d segments of an idle terminal have %d frames", 4*frameLeast+1, got)
	}
	b.shows(strings.Repeat("y", frameEach))
	b.segment()
	b.shows("z")
	b.segment()
	if got := frames(); got != 5 {
		t.Errorf("after much output there are %d frames", got)
	}
	right := b.spill.dir
	b.spill.dir = filepath.Join(right, "not there")
	b.shows("lost")
	if err := b.seal(); err == nil {
		t.Error("what isn't spilled counts as that")
	}
	b.spill.dir = right
	b.shows("after it")
	b.segment()
	if got := frames(); got != 6 {
		t.Errorf("after what is lost there are %d frames", got)
	}
}

// A disk that hangs holds up those who wait no longer than they say, and nothing piles up behind it.
func TestRecordsWhileDiskHangs(t *testing.T) {
	b := newRecorderBench(t)
	b.work.Lock() // what is sealed never ends
	b.output(backlog.Out, []byte("one"))
	wait := b.sealing()
	if wait(time.Millisecond) {
		t.Error("it is sealed")
	}
	b.mu.Lock()
	b.armed, b.wait = false, time.Hour
	b.mu.Unlock()
	b.due() // returns
	b.mu.Lock()
	if !b.armed {
		t.Error("the timer doesn't try it again")
	}
	b.mu.Unlock()
	b.work.Unlock()
	if !wait(time.Minute) {
		t.Error("it isn't sealed")
	}
	if text, _ := b.spilled(); text != "r80x24;oone;" {
		t.Errorf("it is %q", text)
	}
}

// Of segments that wait for too long the oldest go.
func TestSpillIsBounded(t *testing.T) {
	b := newRecorderBench(t)
	b.spill.most = 2000
	for i := range 20 {
		b.output(backlog.Out, fmt.Appendf(nil, "%d,", i))
		if err := b.seal(); err != nil {
			t.Fatal(err)
		}
	}
	text, bodies := b.spilled()
	if !strings.HasSuffix(text, "o18,;o19,;") || strings.Contains(text, "o3,") || len(bodies) < 2 {
		t.Errorf("%d segments are left: %s", len(bodies), text)
	}
}

// A segment isn't open for long, however little comes.
func TestSpillEndsByAge(t *testing.T) {
	b := newRecorderBench(t)
	began := time.Now()
	if err := b.spill.add([]recorded{{0, recording.Output, 1, 7}}, []byte("x"), began); err != nil {
		t.Fatal(err)
	}
	if b.spill.full(began.Add(sealLate/2)) || !b.spill.full(began.Add(sealLate)) {
		t.Error("a segment doesn't end when it is old")
	}
}

// On a disk that is nearly full only the newest wait.
func TestSpillLeavesDiskFree(t *testing.T) {
	b := newRecorderBench(t)
	b.spill.few = func() bool { return true }
	for name, size := range map[string]int64{"000000000001": segmentSize, "000000000002": segmentSize / 2, "000000000003": segmentSize / 2} {
		if err := os.Truncate(newFile(t, b.spill.dir, name+sealedPart), size); err != nil {
			t.Fatal(err)
		}
		newFile(t, b.spill.dir, name+bodyPart)
	}
	b.spill.bound()
	left, err := filepath.Glob(filepath.Join(b.dir, "*"+bodyPart))
	if err != nil || len(left) != 2 {
		t.Errorf("%v are left, %v", left, err)
	}
	b.spill.few = func() bool { return false }
	if err := os.Truncate(b.spill.name(3, sealedPart), 2*spillSize); err != nil {
		t.Fatal(err)
	}
	b.spill.bound()
	if left, err = filepath.Glob(filepath.Join(b.dir, "*"+bodyPart)); err != nil || len(left) != 1 {
		t.Errorf("%v are left of a large one, %v", left, err)
	}
}

func newFile(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Another attempt in the same folder writes over nothing, and takes no number of a segment that is stored.
func TestSpillAgain(t *testing.T) {
	b := newRecorderBench(t)
	newFile(t, b.dir, "000000000007"+sealedPart)
	if n, err := lastNumber(b.dir); n != 7 || err != nil {
		t.Errorf("the last one is %d, %v", n, err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, driver.LastFile), []byte(`{"number":9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := lastNumber(b.dir); n != 9 || err != nil {
		t.Errorf("with those that are stored it is %d, %v", n, err)
	}
}

// BenchmarkTerminalOutput is what a piece of output costs before clients get it, with and without a recording.
func BenchmarkTerminalOutput(b *testing.B) {
	piece := []byte("\x1b[32muser@host\x1b[0m:~$ echo hello\r\n")
	took := func(b *testing.B, c *command) {
		b.SetBytes(int64(len(piece)))
		for b.Loop() {
			c.recorder().roomFor()
			c.took(backlog.Out, piece)
		}
	}
	b.Run("plain", func(b *testing.B) {
		c := newCommand(backlog.New(attach.OutputKept), false)
		c.shown = newShown(c, attach.Size{Rows: 24, Cols: 80})
		took(b, c)
	})
	b.Run("recorded", func(b *testing.B) { took(b, newRecorderBench(b).of) })
}
