package cycles

import (
	"context"
	_ "embed"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

//go:embed state.py
var program string

// ask prints what the program tells.
const ask = `import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect("/run/state.sock")
sys.stdout.write(s.makefile().read())`

func TestCycles(t *testing.T) {
	count := 5
	if os.Getenv("DIAPAUSE_LONG") != "" {
		count = 100
	}
	ctx := t.Context()
	d, s := start(ctx, t)
	if _, err := s.Until(ctx, time.Minute, "test -S /run/state.sock"); err != nil {
		t.Fatal(err)
	}
	tell := func() string {
		told, err := s.Exec(ctx, "", "/usr/bin/python3", "-c", ask)
		if err != nil {
			t.Fatal(err)
		}
		return told
	}
	was := tell()
	var all []held
	for cycle := range count {
		if _, err := s.Suspend(ctx); err != nil {
			t.Fatalf("cycle %d: %v", cycle+1, err)
		}
		if _, err := s.Ensure(ctx); err != nil {
			t.Fatalf("cycle %d: %v", cycle+1, err)
		}
		if is := tell(); is != was {
			t.Fatalf("cycle %d: the program's state was\n%s\nand is\n%s", cycle+1, was, is)
		}
		h, err := look(ctx, d, s)
		if err != nil {
			t.Fatalf("cycle %d: %v", cycle+1, err)
		}
		all = append(all, h)
	}
	t.Logf("after the first cycle %+v", all[0])
	t.Logf("after the last one    %+v", all[len(all)-1])
	drifts(t, all)
}

func start(ctx context.Context, t *testing.T) (*local.Daemon, *local.Session) {
	t.Helper()
	d := daemon(ctx, t)
	s, err := d.Run(ctx, "again", nil, "/usr/bin/python3", "-c", program)
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

// daemon starts one that ends with the test.
func daemon(ctx context.Context, t *testing.T) *local.Daemon {
	t.Helper()
	dir := t.TempDir()
	binary, err := local.Binary(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := local.Start(ctx, binary, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon printed:\n%s", d.Output())
		}
		if err := d.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	return d
}

// drifts compares the median of the first third with the least of the last: a
// moment's connection, pipe or thread is no drift, what grows with every cycle is.
func drifts(t *testing.T, all []held) {
	t.Helper()
	third := (len(all) + 2) / 3
	for _, c := range []struct {
		what string
		of   func(held) int64
		more int64 // allowed over the whole time
	}{
		{"mounts", func(h held) int64 { return int64(h.Mounts) }, 0},
		{"loop devices", func(h held) int64 { return int64(h.Loops) }, 0},
		{"cgroups", func(h held) int64 { return int64(h.Cgroups) }, 0},
		{"processes of up and the shim", func(h held) int64 { return int64(h.Children) }, 0},
		{"files in the data directory", func(h held) int64 { return int64(h.Other) }, 2},
		{"descriptors of up", func(h held) int64 { return int64(h.Up.FDs) }, 6},
		{"descriptors of the shim", func(h held) int64 { return int64(h.Shim.FDs) }, 2},
		{"threads of up", func(h held) int64 { return int64(h.Up.Threads) }, 8},
		{"threads of the shim", func(h held) int64 { return int64(h.Shim.Threads) }, 4},
		{"memory of up", func(h held) int64 { return h.Up.Memory }, 48 << 20},
		{"memory of the shim", func(h held) int64 { return h.Shim.Memory }, 4 << 20},
	} {
		first, last := median(all[:third], c.of), least(all[len(all)-third:], c.of)
		if last > first+c.more {
			t.Errorf("%s: %d in the first cycles, %d in the last of %d", c.what, first, last, len(all))
		}
	}
	// Every snapshot adds a little to the store, and the last no more than the
	// second: the first stored everything.
	const most = 1 << 20
	if each := (all[len(all)-1].Store - all[0].Store) / int64(len(all)-1); each > most {
		t.Errorf("the store grows by %d bytes with every cycle, %d are allowed", each, most)
	}
	if each := (all[len(all)-1].Objects - all[0].Objects) / (len(all) - 1); each > 20 {
		t.Errorf("the store grows by %d objects with every cycle", each)
	}
}

func least(all []held, of func(held) int64) int64 {
	n := of(all[0])
	for _, h := range all[1:] {
		n = min(n, of(h))
	}
	return n
}

func median(all []held, of func(held) int64) int64 {
	var figures []int64
	for _, h := range all {
		figures = append(figures, of(h))
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}
