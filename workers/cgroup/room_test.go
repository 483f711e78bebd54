package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRoom(t *testing.T) {
	type files map[string]string
	for _, c := range []struct {
		name         string
		top, between files // above the group
		own          files
		want         int64
		limited      bool
	}{
		{"no limit", files{}, files{"memory.max": "max\n"}, files{"memory.max": "max\n"}, 0, false},
		{"its own", files{}, files{"memory.max": "max\n"},
			files{"memory.max": "1000000\n", "memory.current": "400000\n", "memory.stat": "anon 5\ninactive_file 100000\n"}, 700000, true},
		{"one above is nearer", files{"memory.max": "900000\n", "memory.current": "850000\n", "memory.stat": "anon 5\n"},
			files{"memory.max": "max\n"}, files{"memory.max": "1000000\n", "memory.current": "0\n", "memory.stat": ""}, 50000, true},
		{"used up", files{}, files{"memory.max": "100\n", "memory.current": "120\n", "memory.stat": ""}, files{"memory.max": "max\n"}, 0, true},
	} {
		g, dir := onPaper(t, c.own)
		for d, content := range map[string]files{filepath.Dir(dir): c.between, filepath.Dir(filepath.Dir(dir)): c.top} {
			for name, text := range content {
				if err := os.WriteFile(filepath.Join(d, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		room, limited, err := g.Room()
		if err != nil || limited != c.limited || limited && room != c.want {
			t.Errorf("%s: %d, %t, %v; want %d, %t", c.name, room, limited, err, c.want, c.limited)
		}
	}
}

func TestRoomOfVersion1(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"memory.limit_in_bytes": "1000000\n", "memory.usage_in_bytes": "400000\n",
		"memory.stat": "inactive_file 1000\ntotal_inactive_file 100000\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if free, limited, err := roomIn(dir, 1); err != nil || !limited || free != 700000 {
		t.Errorf("%d, %t, %v; want 700000", free, limited, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte("9223372036854771712\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, limited, err := roomIn(dir, 1); err != nil || limited {
		t.Errorf("no limit: %t, %v", limited, err)
	}
}

func TestOwnRoom(t *testing.T) {
	g, dir := onPaper(t, map[string]string{"memory.max": "1000000\n", "memory.current": "400000\n", "memory.stat": "inactive_file 100000\n"})
	point := g.h.layout.mounts[g.h.layout.serves[memory]].point
	below := strings.TrimPrefix(dir, point)
	for text, want := range map[string]int64{
		"3:cpu:/elsewhere\n0::" + below + "\n": 700000,
		"0::/gone\n":                           -1,
		"3:memory:" + below + "\n":             -1, // of another version
		"nonsense":                             -1,
	} {
		room, limited, err := g.h.roomOf(text)
		if err != nil || limited != (want >= 0) || limited && room != want {
			t.Errorf("%q: %d, %t, %v; want %d", text, room, limited, err, want)
		}
	}
	if _, _, err := open(t).OwnRoom(); err != nil {
		t.Error(err)
	}
}

// TestRoomOfTheMachine has a real group with a limit.
func TestRoomOfTheMachine(t *testing.T) {
	g := create(t, open(t), Limits{Memory: 64 << 20})
	room, limited, err := g.Room()
	if err != nil || !limited || room <= 0 || room > 64<<20 {
		t.Errorf("a group with a limit of 64 MiB has room for %d, %t, %v", room, limited, err)
	}
}
