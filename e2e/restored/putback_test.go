package restored

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/schemas"
)

// NATS that is put back while `up` runs ends it, though it lost only what was written a
// moment ago; the session that slept since is one that sleeps, and nothing else.
func TestNATSPutBackWhileServed(t *testing.T) {
	store := filepath.Join(t.TempDir(), "nats")
	backup := store + ".backup"
	port := 0
	serve := func() *server.Server {
		srv := natstest.ServeWith(t, server.Options{StoreDir: store, Port: port})
		port = srv.Addr().(*net.TCPAddr).Port
		return srv
	}
	end := func(srv *server.Server) {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	srv := serve()
	s := stack.New(built.program, filepath.Join(built.dir, t.Name()))
	s.Dir = built.dir
	l := &life{t: t, Stack: s, counters: map[string]*counter{}}
	defer func() { // while the server is there
		if err := s.Close(); err != nil {
			t.Errorf("clean up: %v", err)
		}
		if t.Failed() {
			t.Logf("the daemon printed:\n%s", s.Log())
		}
	}()
	url := "nats://127.0.0.1:" + strconv.Itoa(port)
	l.up("--nats", url)
	l.start("r1")
	end(srv)
	if err := os.CopyFS(backup, os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	srv = serve()
	for deadline := time.Now().Add(time.Minute); s.Do("show", "r1").Code != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("`up` doesn't find the server again")
		}
	}
	l.must("suspend", "r1")
	end(srv)
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(store, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	serve()
	if err := s.Wait(); err == nil || !strings.Contains(s.Log(), "the records of sessions have gone back") {
		t.Fatalf("`up` ended with %v, without a word of what was put back", err)
	}
	l.up("--nats", url)
	l.is("r1", schemas.Suspended)
	l.must("ensure", "r1")
	l.counters["r1"].check(l)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	l.up("--nats", url)
	l.counters["r1"].check(l)
}
