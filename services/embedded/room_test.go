package embedded

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Clients without credentials are refused before the disk is full, and taken again when there
// is room; each change is said once.
func TestRoom(t *testing.T) {
	var log bytes.Buffer
	var why error
	changes, reserved := 0, 0
	r := newRoom(t.TempDir(), func(err error) { why, changes = err, changes+1 }, func() error { reserved++; return nil }, slog.New(slog.NewTextHandler(&log, nil)))
	const large, small = 100 << 30, 250 << 20 // 256 MiB and 10 MiB are kept
	for i, step := range []struct {
		size, free int64
		err        error
		refused    bool
		changes    int
	}{
		{large, 1 << 30, nil, false, 0},
		{large, 256 << 20, nil, false, 0},
		{small, 10 << 20, nil, false, 0},
		{large, 256<<20 - 1, nil, true, 1},
		{large, 0, nil, true, 1},
		{large, 1 << 30, errors.New("unknown"), true, 1},
		{large, 384<<20 - 1, nil, true, 1}, // on the edge nothing changes
		{large, 384 << 20, nil, false, 2},
		{large, 0, errors.New("unknown"), false, 2},
		{small, 10<<20 - 1, nil, true, 3},
		{small, 15 << 20, nil, false, 4},
	} {
		r.look = func() (int64, int64, error) { return step.size, step.free, step.err }
		r.check()
		if refused := why != nil; refused != step.refused || changes != step.changes {
			t.Errorf("step %d: refused %v after %d changes, want %v after %d", i, refused, changes, step.refused, step.changes)
		}
	}
	if got := strings.Count(log.String(), "isn't taken"); got != 2 || strings.Count(log.String(), "level=WARN") != 4 {
		t.Errorf("it logged:\n%s\nwant two refusals, and each end", log.String())
	}
	if reserved != 3 {
		t.Errorf("a reserve is kept at %d steps, want the 3 with room", reserved)
	}
	if taken := <-r.intake; !taken { // of four changes the last
		t.Error("the last change is a refusal")
	}
	select {
	case <-r.intake:
		t.Error("there is one change more")
	default:
	}
}

// A disk is looked at each second when it could be full soon.
func TestNextLook(t *testing.T) {
	for _, c := range []struct {
		free int64
		want time.Duration
	}{{-1, time.Second}, {0, time.Second}, {1 << 30, time.Second}, {4 << 30, 4 * time.Second}, {1 << 40, 10 * time.Second}} {
		if got := nextLook(c.free).Round(time.Second); got != c.want {
			t.Errorf("with %d bytes free it is looked at after %v, want %v", c.free, got, c.want)
		}
	}
}

func TestDiskOf(t *testing.T) {
	size, free, err := diskOf(t.TempDir())
	if err != nil || free <= 0 || size < free {
		t.Errorf("a disk of %d bytes has %d free, %v", size, free, err)
	}
	if _, _, err := diskOf("/nonexistent"); err == nil {
		t.Error("a directory that isn't there has room")
	}
}
