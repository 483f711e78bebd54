package criu

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// benched is a session that a benchmark suspends to a directory, again and again.
type benched struct {
	d     *Driver
	store *dir.Store
	write image.WriteOptions
	read  image.ReadOptions
	epoch uint64
}

// bench begins one, and waits until its command has made the file /ready.
func bench(b *testing.B, way driver.Way, spec schemas.Spec) *benched {
	b.Helper()
	s := openBenched(b, way)
	i, err := s.d.Start(b.Context(), s.next(), spec, drivertest.Begin)
	if err != nil {
		b.Fatal(err)
	}
	awaitFile(b, fmt.Sprintf("/proc/%d/root/ready", i.PID))
	return s
}

// openBenched makes a driver and a store, without a session.
func openBenched(b *testing.B, way driver.Way) *benched {
	b.Helper()
	data := b.TempDir()
	d, err := New(Options{Data: filepath.Join(data, "d"), Instance: fmt.Sprintf("bench-%d", os.Getpid()), Way: way})
	if err != nil {
		b.Fatalf("%v (this runs sessions: it needs root and criu)", err)
	}
	s := &benched{d: d}
	b.Cleanup(func() {
		if err := errors.Join(d.Stop(context.Background(), s.next()), d.Close()); err != nil {
			b.Error(err)
		}
	})
	if s.store, err = dir.Open(filepath.Join(data, "objects")); err != nil {
		b.Fatal(err)
	}
	s.write, s.read = benchKeys(b)
	return s
}

func (s *benched) next() driver.Fence {
	s.epoch++
	return drivertest.Fence("s", s.epoch)
}

// suspend captures the session, which stays frozen, and commits its image.
func (s *benched) suspend(b *testing.B, which schemas.Rehearse) (*driver.Laps, driver.Captured, image.Head) {
	b.Helper()
	s.write.Seq++
	laps := driver.NewLaps(time.Now())
	ctx := driver.WithLaps(b.Context(), laps)
	w, err := image.Create(ctx, s.store, s.write)
	if err != nil {
		b.Fatal(err)
	}
	c, err := s.d.CaptureRehearsed(ctx, s.next(), w, which)
	if err != nil {
		b.Fatal(err)
	}
	head, _, _, err := w.Commit(ctx)
	if err != nil {
		b.Fatal(err)
	}
	laps.Mark("commit")
	s.write.Base, s.write.Parent = w.Base(), &head
	return laps, c, head
}

func benchKeys(b testing.TB) (image.WriteOptions, image.ReadOptions) {
	b.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		b.Fatal(err)
	}
	public, signer, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	return image.WriteOptions{Tenant: "t", Session: "s", UID: "s", Lineage: "l", Signer: signer, SignerName: "h", Recipients: []age.Recipient{id.Recipient()}},
		image.ReadOptions{Identities: []age.Identity{id}, Trusted: func(string, string) []ed25519.PublicKey { return []ed25519.PublicKey{public} }}
}

func awaitFile(b *testing.B, path string) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := os.Stat(path)
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			b.Fatalf("the session isn't ready: %v", err)
		}
	}
}
