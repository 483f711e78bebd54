package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/stream"
)

func TestReserve(t *testing.T) {
	r := newReserve(t.TempDir())
	var size, free int64 = 100 << 30, 20 << 20
	r.look = func() (int64, int64, error) { return size, free, nil }
	has := func(want int64) {
		t.Helper()
		var st unix.Stat_t
		if err := r.keep(); err != nil {
			t.Fatal(err)
		}
		if err := unix.Stat(r.path, &st); err != nil && want > 0 || st.Size != want || st.Blocks*512 < want {
			t.Errorf("the reserve has %d bytes in %d blocks, %v; want %d", st.Size, st.Blocks, err, want)
		}
	}
	has(0) // for which there is no room
	free = 1 << 30
	has(reservedMost)
	has(reservedMost)
	if !r.release() || r.release() {
		t.Error("it is given up once")
	}
	size = 100 << 20
	has(4 << 20)
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(r.path), "*.part")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// smallDisk gives options for a server on a disk of its own, and a function that fills it.
func smallDisk(t *testing.T, data string) (o Options, fill func()) {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, data); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	files := 0
	return Options{StoreDir: filepath.Join(dir, "nats"), CredsDir: filepath.Join(dir, "creds")}, func() {
		files++
		f, err := os.Create(filepath.Join(dir, "filled"+string(rune('0'+files))))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for block := make([]byte, 4096); ; {
			if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// On a disk without a byte left the streams go on with what was reserved, and end when that is taken, too.
func TestFullDisk(t *testing.T) {
	o, fill := smallDisk(t, "mode=700,size=100m")
	s := start(t, o)
	js, err := jetstream.New(connect(t, s, "", s.InProcess()))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Ensure(t.Context(), js, stream.NamesWith(""), 1); err != nil {
		t.Fatal(err)
	}
	publish := func() error {
		_, err := js.Publish(t.Context(), "diapause.v1.event.a.b.c", make([]byte, 64<<10))
		return err
	}
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	fill()
	failed := 0
	for end := time.Now().Add(patience); ; failed++ {
		if err = publish(); err == nil && failed > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after %d failures nothing is stored: %v", failed, err)
		}
	}
	for range 10 {
		if err := publish(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-s.Broken():
		t.Fatalf("the streams have ended: %v", err)
	default:
	}
	fill()
	for end := time.Now().Add(patience); ; {
		_ = publish() // of many one finds the disk full
		select {
		case err := <-s.Broken():
			if !errors.Is(err, ErrFull) {
				t.Errorf("the streams end with %v", err)
			}
			return
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the streams don't end on a full disk without a reserve")
		}
	}
}
