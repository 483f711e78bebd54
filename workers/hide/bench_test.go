package hide

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkHide is what hiding adds to each start and resume, but for one more layer of the mount.
func BenchmarkHide(b *testing.B) {
	dir := b.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	hidden := []string{at("data"), at("etc/creds"), at("etc/identity"), at("store"), at("root/.aws")}
	all, err := Inside("/", hidden)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("find", func(b *testing.B) {
		for b.Loop() {
			if _, err := Inside("/", hidden); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cover", func(b *testing.B) {
		for b.Loop() {
			dir, err := os.MkdirTemp("/dev/shm", "hide")
			if err == nil {
				err = errors.Join(Cover(dir, "/", all), os.RemoveAll(dir))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	again := b.TempDir()
	b.Run("cover again", func(b *testing.B) {
		for b.Loop() {
			if err := Cover(again, "/", all); err != nil {
				b.Fatal(err)
			}
		}
	})
}
