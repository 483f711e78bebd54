package criu

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/network/networktest"
)

// downloading reads numbers of eight bytes from a server outside, without an end, and says which one
// it didn't expect. It counts them in /tmp/read.
const downloading = `
import socket, struct, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
seen = 0
left = b""
try:
    while True:
        b = s.recv(1 << 20)
        if not b: raise EOFError("closed")
        left += b
        n = len(left) // 8
        if struct.unpack("<%dQ" % n, left[:8 * n]) != tuple(range(seen, seen + n)):
            print("wrong after", seen, flush=True)
        seen += n
        left = left[8 * n:]
        if seen >> 14 != (seen - n) >> 14:
            open("/tmp/read", "w").write(str(seen))
except (OSError, EOFError) as e:
    print("ended:", e, flush=True)
import signal
signal.pause()
`

// serveNumbers serves what downloading reads, outside.
func serveNumbers(t *testing.T, o *networktest.Outside) int {
	t.Helper()
	l := o.Listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 1<<13)
				// As fast as a busy line: at full speed the queue of a session that stands still is full
				// at once, and nothing comes while it is captured.
				pace := time.NewTicker(200 * time.Microsecond)
				defer pace.Stop()
				for n := uint64(0); ; <-pace.C {
					for i := 0; i < len(b); i += 8 {
						binary.LittleEndian.PutUint64(b[i:], n)
						n++
					}
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestDownload captures a session while the outside sends to it as fast as it can. The session that runs
// on misses nothing, and what is resumed is told that its connection has ended.
func TestDownload(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	t.Parallel()
	outside := networktest.New(t)
	port := serveNumbers(t, outside)
	s := begin(t, open(t, t.TempDir()), "s", schemas.Spec{
		Command: []string{"/usr/bin/python3", "-c", downloading, outside.Addr.String(), fmt.Sprint(port)}, Network: "private",
	})
	s.want("ready")
	more := func(than string) string {
		return s.sh(`while n=$(cat /tmp/read 2>/dev/null); [ "$n" = "" ] || [ "$n" = "` + than + `" ]; do sleep 0.01; done; echo $n`)
	}
	read := more("")
	for range 6 {
		s.checkpoint()
		read = more(read)
	}
	if out := output(t, s.d, s.uid); strings.Contains(out, "wrong") || strings.Contains(out, "ended") {
		t.Fatalf("after captures that were undone it says %q", out)
	}
	s.cycle()
	s.want("ended: ")
	if out := output(t, s.d, s.uid); strings.Contains(out, "wrong") {
		t.Errorf("it says %q", out)
	}
}
