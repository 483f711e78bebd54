package archive

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
)

// serve starts NATS on a directory, with the archive of what is there.
func (b *bench) serve(at string, p Policy) *server.Server {
	b.Helper()
	s := natstest.ServeWith(b.T, server.Options{JetStream: true, StoreDir: at, Host: "127.0.0.1", Port: -1})
	js, names := natstest.Connect(b.T, s.ClientURL()), stream.NamesWith("")
	b.must(stream.Ensure(b.ctx, js, names, 1))
	records, err := statekv.Open(b.ctx, js, names)
	b.must(err)
	b.heads, err = OpenHeads(b.ctx, js, names)
	b.must(err)
	b.log = records
	b.Archive = b.archive(p)
	b.reader = b.read()
	return s
}

func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// NATS is restored from a backup that is older than the last segments, and goes on otherwise: what
// the segments have that the log hasn't is reported, and isn't mixed up with what has its sequences
// now. What both have is there once.
func TestNATSIsRestored(t *testing.T) {
	b := newBench(t, atOnce(), nil, nil)
	first, backup := t.TempDir(), t.TempDir()
	s := b.serve(first, atOnce())
	v := b.checkpoints(b.run("a", "u1"), 2)
	b.moved()
	b.checkpoints(v, 2)
	stop(s)
	b.must(os.CopyFS(backup, os.DirFS(first)))

	s = b.serve(first, atOnce())
	v, err := b.log.Get(b.ctx, name("a"))
	b.must(err)
	b.checkpoints(v, 2)
	b.moved()
	stop(s)

	s = b.serve(backup, atOnce())
	want := b.history("a")
	v, err = b.log.Get(b.ctx, name("a"))
	b.must(err)
	if v.Version != 10 {
		t.Fatalf("the backup has version %d", v.Version)
	}
	other := b.run("b", "u2") // takes the sequences of what was lost
	b.checkpoints(other, 2)
	out := b.pass()
	if len(out.Head.Forks) != 1 || out.Head.Forks[0].Number != 2 || out.Head.Forks[0].Cut != 11 || len(out.Problems) != 1 || !strings.Contains(out.Problems[0], "the log went back") {
		t.Errorf("it went back: %+v, %q", out.Head, out.Problems)
	}
	b.same("a", b.history("a"), want)
	if got := b.history("b"); len(got) != 6 {
		t.Errorf("b: %q", got)
	}
	b.same("a of all", b.whole(time.Time{})[name("a")], want)
	if c, err := b.reader.Check(b.ctx, true); err != nil || len(c.Problems) != 0 || len(c.Notes) != 1 || c.Segments != int(out.Head.End.Number) {
		t.Errorf("check: %+v, %v", c, err)
	}
	if out := b.pass(); len(out.Head.Forks) != 1 || out.Revisions != 0 || len(out.Problems) != 0 {
		t.Errorf("again: %+v", out)
	}
	stop(s)
}

// A backup that is older than the last segment, and hasn't gone on since, is as good as one of
// which a process ended before it recorded that.
func TestNATSIsRestoredAsItWas(t *testing.T) {
	b := newBench(t, atOnce(), nil, nil)
	first, backup := t.TempDir(), t.TempDir()
	s := b.serve(first, atOnce())
	b.checkpoints(b.run("a", "u1"), 4)
	want := b.history("a")
	stop(s)
	b.must(os.CopyFS(backup, os.DirFS(first)))
	s = b.serve(first, atOnce())
	b.moved()
	stop(s)
	s = b.serve(backup, atOnce())
	if out := b.moved(); out.Head.End.Number != 1 || len(out.Head.Forks) != 0 || out.Head.Pending {
		t.Errorf("moved: %+v", out.Head)
	}
	b.same("history", b.history("a"), want)
	if got := b.inNATS("a"); len(got) != 2 {
		t.Errorf("in NATS there is %q", got)
	}
	stop(s)
}
