package criu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
	"github.com/diapause/diapause/workers/layer"
)

// hostile makes an image with one entry before the one that should not get out.
func hostile(t *testing.T, entries ...image.Entry) *drivertest.Image {
	t.Helper()
	img := &drivertest.Image{}
	for _, e := range entries {
		if e.Type == image.TypeFile {
			e.Size = 1
		}
		if err := img.Add(e, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

func TestHostileImages(t *testing.T) {
	for name, entries := range map[string][]image.Entry{
		"up":               {{Name: "upper/../../out", Type: image.TypeFile}},
		"absolute":         {{Name: "upper//out", Type: image.TypeFile}},
		"through a link":   {{Name: "upper/l", Type: image.TypeSymlink, Link: "../../outside"}, {Name: "upper/l/out", Type: image.TypeFile}},
		"over a link":      {{Name: "upper/l", Type: image.TypeSymlink, Link: "../../outside/out"}, {Name: "upper/l", Type: image.TypeFile, Size: 1}},
		"hard link up":     {{Name: "upper/h", Type: image.TypeHardlink, Link: "upper/../../outside/precious"}},
		"hard link aside":  {{Name: "upper/h", Type: image.TypeHardlink, Link: "criu/x"}},
		"hard link of one": {{Name: "upper/l", Type: image.TypeSymlink, Link: "../../outside"}, {Name: "upper/h", Type: image.TypeHardlink, Link: "upper/l/precious"}},
		"unknown type":     {{Name: "upper/x", Type: "socket"}},
		"root is a file":   {{Name: "upper", Type: image.TypeFile}},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dirs := make(map[string]*os.File)
			for _, d := range []string{"outside", "scratch", "in/upper"} {
				if err := os.MkdirAll(filepath.Join(base, d), 0o755); err != nil {
					t.Fatal(err)
				}
				f, err := os.Open(filepath.Join(base, d))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				dirs[d] = f
			}
			if err := os.WriteFile(filepath.Join(base, "outside/precious"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			img := &drivertest.Image{}
			if name == "over a link" {
				img = hostile(t, entries[0])
			} else {
				img = hostile(t, entries...)
			}
			memory := &layer.Extraction{Source: img, Root: dirs["scratch"]}
			own := &layer.Extraction{Source: img, Root: dirs["in/upper"], As: partUpper}
			err := extractAll(t.Context(), img, memory, own, nil)
			if err == nil {
				err = layer.Fill(t.Context(), img, memory, own)
			}
			if err == nil && name != "over a link" {
				t.Error("it is taken")
			}
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(base, "outside/precious"), &st); err != nil || st.Nlink != 1 || st.Size != 0 {
				t.Errorf("a file outside was reached: %+v, %v", st, err)
			}
			for _, p := range []string{"out", "in/out", "outside/out"} {
				if _, err := os.Lstat(filepath.Join(base, p)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s was made: %v", p, err)
				}
			}
		})
	}
}

func TestFence(t *testing.T) {
	dir := t.TempDir()
	f := &fences{dir: dir}
	for _, c := range []struct {
		epoch uint64
		want  error
	}{{5, nil}, {5, nil}, {4, driver.ErrStale}, {6, nil}, {5, driver.ErrStale}} {
		if err := f.pass("u", c.epoch); !errors.Is(err, c.want) {
			t.Errorf("epoch %d gives %v, want %v", c.epoch, err, c.want)
		}
	}
	again := &fences{dir: dir}
	if err := again.pass("u", 5); !errors.Is(err, driver.ErrStale) {
		t.Errorf("after a restart a stale epoch gives %v", err)
	}
	if err := again.pass("other", 1); err != nil {
		t.Errorf("another session's epoch gives %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "u"), []byte("many"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := again.pass("u", 100); err == nil || errors.Is(err, driver.ErrStale) {
		t.Errorf("a damaged fence gives %v", err)
	}
}

// The fence of a session that has been away for long goes, one that is here or was a
// moment ago stays.
func TestOldFencesArePruned(t *testing.T) {
	f := &fences{dir: t.TempDir()}
	for _, uid := range []schemas.UID{"away", "here", "fresh"} {
		if err := f.pass(uid, 7); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	long := now.Add(-fenceKept - time.Hour)
	for _, uid := range []string{"away", "here"} {
		if err := os.Chtimes(filepath.Join(f.dir, uid), long, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.prune([]schemas.UID{"here"}, now); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[schemas.UID]error{"away": nil, "here": driver.ErrStale, "fresh": driver.ErrStale} {
		if err := f.pass(uid, 6); !errors.Is(err, want) {
			t.Errorf("%s: a lower epoch gives %v, want %v", uid, err, want)
		}
	}
}

func TestVersion(t *testing.T) {
	for said, want := range map[string]string{
		"Version: 4.2.1": "4.2.1", "Version: 4.2": "4.2", "Version: 5.0\nGitID: x": "5.0",
		"Version: 4.1.1": "", "Version: 3.17.1": "", "hello": "",
	} {
		path := filepath.Join(t.TempDir(), "criu")
		if err := os.WriteFile(path, []byte("#!/bin/sh\nprintf '"+said+"\\n'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := Version(context.Background(), []string{path})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("criu that says %q has the version %q, %v; want %q", said, got, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	argv, err := Find()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if version, err := Version(context.Background(), argv); err != nil || version == "" {
		t.Errorf("the criu that is found, %q, says %q, %v", argv, version, err)
	}
	t.Setenv("DIAPAUSE_CRIU", "/my/criu --verbose")
	if argv, err := Find(); err != nil || len(argv) != 2 || argv[0] != "/my/criu" {
		t.Errorf("the criu that is named is %q, %v", argv, err)
	}
	t.Setenv("DIAPAUSE_CRIU", "")
	t.Setenv("DIAPAUSE_PREFIX", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(); err == nil || !strings.Contains(err.Error(), "diapause doctor") {
		t.Errorf("without any criu Find gives %v", err)
	}
}
