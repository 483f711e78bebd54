package shim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/screen"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// lists gives the commands of the complete segments, a list each, and how many were dropped.
func (b *recorderBench) lists() (all [][]schemas.TypedCommand, dropped int) {
	b.t.Helper()
	_, bodies := b.spilled()
	for _, body := range bodies {
		if body.List != nil {
			dropped += body.List.Dropped
		}
	}
	files, err := filepath.Glob(filepath.Join(b.dir, "*"+listPart))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			b.t.Fatal(err)
		}
		defer f.Close()
		opened, err := age.Decrypt(f, b.key)
		if err != nil {
			b.t.Fatal(err)
		}
		z, err := zstd.NewReader(opened)
		if err != nil {
			b.t.Fatal(err)
		}
		var list []schemas.TypedCommand
		for dec := json.NewDecoder(z); dec.More(); {
			var c schemas.TypedCommand
			if err := dec.Decode(&c); err != nil {
				b.t.Fatal(err)
			}
			list = append(list, c)
		}
		z.Close()
		all = append(all, list)
	}
	return all, dropped
}

func (b *recorderBench) prints(text string) {
	b.of.took(backlog.Out, []byte(text))
}

// A command that runs is in the list, and is replaced when it has ended. Who typed is one of two.
func TestRecordsCommands(t *testing.T) {
	b := newRecorderBench(t)
	b.mu.Lock()
	b.armed = true // so that nothing else seals
	b.mu.Unlock()
	b.of.shown.typedBy(schemas.MadeByAgent)
	b.of.shown.typedBy("root\nfoo")
	b.prints("\x1b]633;P;Cwd=/tmp\x07\x1b]633;E;one\x07\x1b]633;C\x07out\x1b]633;D;3\x07$ \x1b]633;E;two\x07\x1b]633;C\x07")
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	b.prints("more\x1b]633;D;0\x07")
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	b.prints("\x1b]633;E; three\x07\x1b]633;C\x07out\x1b]633;D;0\x07\x1b]633;E;four\x07\x1b]633;C\x07")
	b.of.shown.recorder.ended(schemas.ExitStatus{}, b.of.shown)
	all, _ := b.lists()
	var got []string
	for _, list := range all {
		for _, c := range list {
			got = append(got, fmt.Sprintf("%d %s %s %s %t %t", c.Number, c.Text, c.Dir, c.By, c.Running(), c.Exit != nil))
		}
		got = append(got, "|")
	}
	if text := strings.Join(got, ";"); text != "1 one /tmp agent false true;2 two /tmp agent true false;|;2 two /tmp agent false true;|;3 four /tmp agent false false;|" {
		t.Errorf("they are %q", text)
	}
}

// The commands of what is sealed are sealed with it, however little else that is.
func TestSealsCommands(t *testing.T) {
	b := newRecorderBench(t)
	b.ran(schemas.TypedCommand{Number: 1})
	b.work.Lock()
	b.take(false, false)
	waits, spills := b.list.entries, b.spill.list.entries
	b.work.Unlock()
	if len(waits) != 0 || len(spills) != 1 {
		t.Errorf("%d wait, and %d are spilled", len(waits), len(spills))
	}
	b.resized(attach.Size{Rows: 2, Cols: 3})
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	if all, _ := b.lists(); len(all) != 1 || len(all[0]) != 1 {
		t.Errorf("%v are sealed", all)
	}
}

// What is typed is put together on a screen that is no larger than it needs: a flood of prompts takes no more than other output.
func TestPromptsFlood(t *testing.T) {
	b := newRecorderBench(t)
	const prompts = 1000
	flood := []byte(strings.Repeat("\x1b]133;B\x07x\x1b]133;C\x07", prompts))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.of.shown.follow(backlog.Out, flood)
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / prompts; n > 16<<10 {
		t.Errorf("each takes %d bytes", n)
	}
}

func TestLineOf(t *testing.T) {
	long := strings.Repeat("0123456789", 120)
	for echo, want := range map[string]string{
		"": "", "ls\r\n": "ls", "lx\b \bs -l\r\n": "ls -l", "a \\\r\n> b\r\n": "a \\\n> b", "\x1b[1mü\x1b[0m日\r\n": "ü日", "abc\rx\x1b[K\r\n": "x",
		long: long[:500] + "\n" + long[500:1000] + "\n" + long[1000:],
	} {
		if got := screen.TypedLine([]byte(echo)); got != want {
			t.Errorf("%q is %q, want %q", echo, got, want)
		}
	}
}

// A flood of marks is bounded in memory and on the disk, and what has no room is counted.
func TestCommandsFlood(t *testing.T) {
	b := newRecorderBench(t)
	b.work.Lock() // nothing is sealed
	one := strings.Repeat("\x1b]633;E;x\x07\x1b]633;C\x07\x1b]633;D;0\x07", 100)
	for range 1000 {
		b.prints(one)
	}
	b.mu.Lock()
	size, entries := b.list.size, len(b.list.entries)
	b.mu.Unlock()
	if size > recording.MaxEntries || entries == 0 {
		t.Errorf("%d entries take %d bytes", entries, size)
	}
	b.work.Unlock()
	if err := b.seal(); err != nil {
		t.Fatal(err)
	}
	all, dropped := b.lists()
	if len(all) != 1 || len(all[0])+dropped != 100000 {
		t.Errorf("%d lists, %d commands and %d that were dropped", len(all), len(all[0]), dropped)
	}
}

// What a command's entries were goes on behind a restore, within a mark, too.
func TestCommandsThroughImage(t *testing.T) {
	b := newRecorderBench(t)
	b.prints("\x1b]633;E;one\x07\x1b]633;C\x07out\x1b]633;D;")
	dir := t.TempDir()
	saved := savedCommand{}
	if err := saved.keepShown(dir, 0, b.of.shown); err != nil {
		t.Fatal(err)
	}
	w, err := saved.keptShown(dir, b.of)
	if err != nil {
		t.Fatal(err)
	}
	var ended schemas.TypedCommand
	_, end := b.of.log.Span()
	w.tracker.Write([]byte("5\x07"), end, time.Now(), "", func(c schemas.TypedCommand) { ended = c })
	if ended.Number != 1 || ended.Exit == nil || *ended.Exit != 5 {
		t.Errorf("it is %+v", ended)
	}
}

// The bound of what waits counts lists, and they go with their segments.
func TestSpillBoundsLists(t *testing.T) {
	b := newRecorderBench(t)
	b.spill.most = 3000
	for i := range 20 {
		b.prints(fmt.Sprintf("\x1b]633;E;%d%s\x07\x1b]633;C\x07\x1b]633;D;0\x07", i, strings.Repeat(fmt.Sprintf("%x", i*i*7919), 100)))
		if err := b.seal(); err != nil {
			t.Fatal(err)
		}
	}
	var sum int64
	var files []string
	err := filepath.Walk(b.dir, func(path string, info os.FileInfo, err error) error {
		if strings.HasSuffix(path, listPart) || strings.HasSuffix(path, sealedPart) {
			sum += info.Size()
			files = append(files, filepath.Base(path))
		}
		return err
	})
	if err != nil || sum > 3000 || len(files) < 2 || len(files)%2 != 0 {
		t.Errorf("%d bytes wait in %q, %v", sum, files, err)
	}
}
