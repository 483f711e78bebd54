package criu

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver/drivertest"
)

// A paste that is larger than what a terminal takes, while the program doesn't read:
// part of it is in the terminal, part with who typed it. An abort and two suspends
// later, each over a new connection, the program reads all of it, once.
func TestPasteOverSuspends(t *testing.T) {
	t.Parallel()
	var paste []byte
	for i := 0; len(paste) < 60<<10; i++ {
		paste = append(strconv.AppendInt(paste, int64(i), 10), '\n')
	}
	d := open(t, t.TempDir())
	s := begin(t, d, "s", schemas.Spec{TTY: true, Command: []string{"/bin/sh", "-c",
		`stty raw -echo; echo up; until [ -e /tmp/read ]; do sleep 0.01; done; head -c ` + strconv.Itoa(len(paste)) + ` | md5sum; head -c 4; echo .; sleep 1000`}})
	s.want("up")
	keys, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	typing := attach.NewTyping("typist", keys)
	lost := attachTyping(t, d, s, typing)
	go func() { _, _ = w.Write(paste) }()
	awaitTaken(t, typing, 4096)
	if _, err := d.Capture(limited(t), s.next(), &drivertest.Image{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Thaw(limited(t), s.next()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		img := s.suspend()
		if err := <-lost; !errors.Is(err, attach.ErrLost) || typing.Owed() == 0 {
			t.Errorf("the connection ends with %v, %d bytes are owed", err, typing.Owed())
		}
		s.resume(img, schemas.BootResume)
		lost = attachTyping(t, d, s, typing)
	}
	s.sh("touch /tmp/read")
	sum := md5.Sum(paste)
	s.want(hex.EncodeToString(sum[:]))
	awaitTaken(t, typing, int64(len(paste)))
	go func() { _, _ = w.Write([]byte("last")) }()
	s.want("last.")
}

func attachTyping(t *testing.T, d *Driver, s *session, typing *attach.Typing) <-chan error {
	t.Helper()
	conn, err := d.Dial(limited(t), s.uid)
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 1)
	go func() {
		_, err := typing.Attach(conn, attach.Request{}, attach.Streams{})
		lost <- err
	}()
	return lost
}

func awaitTaken(t *testing.T, typing *attach.Typing, n int64) {
	t.Helper()
	for end := time.Now().Add(drivertest.Limit); typing.Taken() < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are taken, want %d", typing.Taken(), n)
		}
	}
}
