package shim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/diapause/diapause/events/attach/backlog"
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
