package recordings

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
)

// lists has the last segment that was spilled have commands.
func (b *bench) lists(all ...schemas.TypedCommand) {
	b.t.Helper()
	to, err := b.to.Key.Public()
	if err != nil {
		b.t.Fatal(err)
	}
	var lines [][]byte
	for _, c := range all {
		line, err := recording.Entry(c)
		if err != nil {
			b.t.Fatal(err)
		}
		lines = append(lines, line)
	}
	sealed, list, err := recording.SealList(lines, 0, to)
	if err != nil {
		b.t.Fatal(err)
	}
	var body recording.Body
	name := segmentFile(b.to.Dir, b.last, ".json")
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, &body)
	}
	if err == nil {
		body.List = &list
		data, err = json.Marshal(body)
	}
	if err == nil {
		err = os.WriteFile(name, data, 0o600)
	}
	if err == nil {
		err = os.WriteFile(segmentFile(b.to.Dir, b.last, ".commands"), sealed, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// commands gives what is read, the last one first.
func (b *bench) commands() (text string, lists int) {
	b.t.Helper()
	all, err := b.spool.Commands(b.t.Context(), b.record)
	if err != nil {
		b.t.Fatal(err)
	}
	err = all.Each(b.t.Context(), func(c schemas.TypedCommand) error {
		text += fmt.Sprintf("%d%s ", c.Number, map[bool]string{true: "r"}[c.Running()])
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	_, lists, _ = all.Missing()
	return text, lists
}

func ran(n int64) schemas.TypedCommand {
	return schemas.TypedCommand{Number: n, Text: "x", Began: time.Unix(n, 0), Ended: time.Unix(n, 1)}
}

func runs(n int64) schemas.TypedCommand {
	c := ran(n)
	c.Ended = time.Time{}
	return c
}

// Commands are read across segments, runs and hosts, each as it was last known, also when the output is gone.
func TestCommands(t *testing.T) {
	b := newBench(t)
	if got, _ := b.commands(); got != "" {
		t.Errorf("before it is recorded they are %q", got)
	}
	b.begins(nil)
	b.spills("one ")
	b.lists(ran(1), runs(2))
	b.spills("none ")
	b.spills("two ")
	b.lists(ran(2), runs(3))
	end := b.stores()
	if got, _ := b.commands(); got != "3r 2 1 " {
		t.Errorf("they are %q", got)
	}
	if left := b.left(); len(left) != 0 {
		t.Errorf("%q wait", left)
	}
	b.spills("lost ")
	b.lists(ran(3), ran(4))
	b.stores()
	b.moves(t.TempDir())
	b.record.Epoch = 2
	b.begins(end) // taken back
	b.spills("three ")
	b.lists(ran(3))
	b.spills("last")
	b.stores()
	if got, _ := b.commands(); got != "3 2 1 " {
		t.Errorf("after it was taken back they are %q", got)
	}
	if err := new(recording.Room).Trim(t.Context(), b.store, placeOf(b.record), 1); err != nil {
		t.Fatal(err)
	}
	if got, lists := b.commands(); got != "3 2 1 " || lists != 0 {
		t.Errorf("without the output they are %q", got)
	}
	b.record.State = schemas.Exited
	if got, _ := b.commands(); got != "3 2 1 " {
		t.Errorf("at the end they are %q", got)
	}
}

// A list that is lost or damaged on its way keeps neither its segment nor other lists.
func TestLostCommands(t *testing.T) {
	b := newBench(t)
	b.begins(nil)
	b.spills("one ")
	b.lists(ran(1))
	b.spills("two ")
	b.lists(ran(2))
	if err := os.Remove(segmentFile(b.to.Dir, b.last, ".commands")); err != nil {
		t.Fatal(err)
	}
	b.spills("three ")
	b.lists(ran(3))
	if err := os.WriteFile(segmentFile(b.to.Dir, b.last, ".commands"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.spills("four ")
	b.lists(ran(4))
	b.stores()
	b.wants("one two three four ")
	if got, lists := b.commands(); got != "4 1 " || lists != 0 {
		t.Errorf("they are %q", got)
	}
	b.spills("five")
	b.lists(ran(5))
	b.store.fails = func(name string) (stored, failed bool) {
		return strings.Contains(name, ".commands"), strings.Contains(name, ".commands")
	}
	if _, err := b.spool.Store(t.Context(), b.record.UID); err == nil {
		t.Error("it is stored without its list")
	}
	b.store.fails = nil
	b.stores()
	if got, _ := b.commands(); got != "5 4 1 " {
		t.Errorf("after an answer got lost they are %q", got)
	}
	taken := placeOf(b.record).ListName(filepath.Base(b.to.Dir), b.last+1)
	if err := b.store.Put(t.Context(), taken, strings.NewReader("junk"), 4); err != nil {
		t.Fatal(err)
	}
	b.spills(" six")
	b.lists(ran(6))
	b.stores()
	b.wants("one two three four five six")
	var dir string
	err := b.store.List(t.Context(), "", func(i objectstore.Info) error {
		if strings.HasSuffix(i.Name, "4.commands") {
			dir = i.Name
		}
		return nil
	})
	if err == nil {
		err = b.store.Delete(t.Context(), dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, lists := b.commands(); got != "5 1 " || lists != 1 {
		t.Errorf("without one list they are %q, %d missing", got, lists)
	}
}
