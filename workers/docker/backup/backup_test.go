package backup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// list gives the paths, modes and contents below a directory.
func list(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := e.Info()
		if err != nil {
			return err
		}
		line := path + " " + i.Mode().String()
		if i.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(data)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// filled makes a directory with files, and gives it and what its parent holds.
func filled(t *testing.T) (dir string, had []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	write(t, filepath.Join(dir, "f"), "now")
	write(t, filepath.Join(dir, "d", "e"), "now")
	if err := os.Chmod(dir, 0o751); err != nil {
		t.Fatal(err)
	}
	return dir, list(t, filepath.Dir(dir))
}

// Each step can be the last before the process is killed: Undo works from the Dir that was
// stored before it.
func TestUndo(t *testing.T) {
	for name, steps := range map[string]int{"planned": 0, "moved, not stored": 1, "moved": 2, "replaced": 3} {
		t.Run(name, func(t *testing.T) {
			dir, had := filled(t)
			d, err := Plan(dir, "b")
			if err != nil {
				t.Fatal(err)
			}
			stored := d
			if steps > 0 {
				if err := d.Move(); err != nil {
					t.Fatal(err)
				}
			}
			if steps > 1 {
				stored = d
			}
			if steps > 2 {
				write(t, filepath.Join(dir, "f"), "then")
				write(t, filepath.Join(dir, "new", "f"), "then")
				if err := os.Chmod(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // it may be repeated
				if err := stored.Undo(func() error { return nil }); err != nil {
					t.Fatal(err)
				}
				if got := list(t, filepath.Dir(dir)); !slices.Equal(got, had) {
					t.Errorf("it holds %q, want %q", got, had)
				}
			}
		})
	}
}

// What is brought back is not taken for the restore's files when Undo is repeated.
func TestUndoStoresBeforeItMovesBack(t *testing.T) {
	dir, had := filled(t)
	d, err := Plan(dir, "b")
	if err == nil {
		err = d.Move()
	}
	if err != nil {
		t.Fatal(err)
	}
	stored, broken := d, errors.New("broken")
	if err := d.Undo(func() error { stored = d; return broken }); !errors.Is(err, broken) {
		t.Fatalf("Undo gives %v, want what storing gave", err)
	}
	if stored.Replaced {
		t.Error("what is moved back next would be removed by another Undo")
	}
	if err := stored.Undo(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := list(t, filepath.Dir(dir)); !slices.Equal(got, had) {
		t.Errorf("it holds %q, want %q", got, had)
	}
}

func TestUndoOfEmpty(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	d, err := PlanEmpty(dir, []string{"f"})
	if err != nil || !d.Created {
		t.Fatalf("%+v, %v", d, err)
	}
	write(t, filepath.Join(dir, "f"), "then")
	write(t, filepath.Join(dir, "other"), "now")
	if err := d.Undo(nil); err != nil {
		t.Fatal(err)
	}
	if got := list(t, dir); len(got) != 2 {
		t.Errorf("beside another's file it holds %q", got)
	}
	if err := os.Remove(filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	if err := d.Undo(nil); err != nil {
		t.Fatal(err)
	}
	if got := list(t, parent); len(got) != 1 {
		t.Errorf("what the restore created is still there: %q", got)
	}
	if err := d.Undo(nil); err != nil {
		t.Errorf("of a directory that was removed: %v", err)
	}
}

func TestDrop(t *testing.T) {
	dir, _ := filled(t)
	d, err := Plan(dir, "b")
	if err == nil {
		err = d.Move()
	}
	if err == nil {
		err = Drop([]Dir{d, {Dir: dir}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := list(t, filepath.Dir(dir)); len(got) != 2 {
		t.Errorf("it holds %q", got)
	}
}
