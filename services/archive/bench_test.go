package archive

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// fill writes so many revisions of 2 kB of so many sessions, in turn.
func fill(t *testing.T, js jetstream.JetStream, names stream.Names, sessions, revisions int) {
	t.Helper()
	value := []byte(`{"tenant":"acme","state":"running","spec":"` + strings.Repeat("x", 2000) + `"}`)
	for range revisions {
		for s := range sessions {
			if _, err := js.PublishAsync(names.SessionSubject(name(fmt.Sprint("s", s))), value); err != nil {
				t.Fatal(err)
			}
			if s%1000 < 999 {
				continue
			}
			select {
			case <-js.PublishAsyncComplete():
			case <-time.After(time.Minute):
				t.Fatal("the writes don't end")
			}
		}
	}
}

// How long a purge of one session keeps others from writing, and what a session's revisions take
// of the server's memory: the figures of services/OPERATIONS.md. It takes minutes.
func TestMeasures(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return
	}
	const sessions, revisions = 5000, 40
	srv := natstest.Serve(t)
	js, names := natstest.Connect(t, srv.ClientURL()), stream.NamesWith("")
	if err := stream.Ensure(t.Context(), js, names, 1); err != nil {
		t.Fatal(err)
	}
	records, err := statekv.Open(t.Context(), js, names)
	if err != nil {
		t.Fatal(err)
	}
	empty := heap()
	fill(t, js, names, sessions, revisions)
	full := heap()
	info, err := js.Stream(t.Context(), names.SessionStream())
	if err != nil {
		t.Fatal(err)
	}
	done, writes := make(chan struct{}), make(chan time.Duration, 1<<20)
	go func() { // others write meanwhile
		defer close(writes)
		for {
			select {
			case <-done:
				return
			default:
			}
			began := time.Now()
			if _, err := js.Publish(t.Context(), names.SessionSubject(name("other")), []byte(`{}`)); err != nil {
				t.Error(err)
				return
			}
			writes <- time.Since(began)
		}
	}()
	var longest, all time.Duration
	for s := range sessions {
		last, err := info.GetLastMsgForSubject(t.Context(), names.SessionSubject(name(fmt.Sprint("s", s))))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := records.Purge(t.Context(), schemas.Name{Tenant: "acme", Session: schemas.SessionID(fmt.Sprint("s", s))}, statekv.RevisionAt(last.Sequence-1), false); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		longest, all = max(longest, took), all+took
		time.Sleep(time.Millisecond)
	}
	close(done)
	var slowest time.Duration
	n := 0
	for w := range writes {
		slowest = max(slowest, w)
		n++
	}
	t.Logf("%d purges of %d revisions each: %s on average, %s at most; %d writes meanwhile, the slowest %s", sessions, revisions-1, all/sessions, longest, n, slowest)
	t.Logf("heap: %d bytes for each session with %d revisions, %d with one", (full-empty)/sessions, revisions, (heap()-empty)/sessions)
}

func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
