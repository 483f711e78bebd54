package embedded

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
)

func options(t testing.TB) Options {
	t.Helper()
	dir := t.TempDir()
	return Options{StoreDir: filepath.Join(dir, "nats"), CredsDir: filepath.Join(dir, "creds")}
}

func start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t testing.TB, s *Server, credsFile string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	url := s.URL()
	if credsFile != "" {
		url = s.SecureURL()
	}
	nc, err := natsconn.Connect(t.Context(), url, credsFile, t.Name(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// withStreams connects the system user and makes the streams of Diapause.
func withStreams(t testing.TB, s *Server, o Options) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(connect(t, s, CredsFile(o.CredsDir, UserSystem)))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Ensure(t.Context(), js, stream.NamesWith(""), 1); err != nil {
		t.Fatal(err)
	}
	return js
}

func TestStreamsAndKeysSurviveARestart(t *testing.T) {
	o := options(t)
	s := start(t, o)
	if _, err := withStreams(t, s, o).Publish(t.Context(), "diapause.v1.event.a.b.c", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	s.Shutdown() // harmless

	js := withStreams(t, start(t, o), o)
	events, err := js.Stream(t.Context(), stream.NamesWith("").Events())
	if err != nil {
		t.Fatal(err)
	}
	m, err := events.GetMsg(t.Context(), 1)
	if err != nil || string(m.Data) != "kept" {
		t.Errorf("after the restart: %v, %v; want the message from before", m, err)
	}
}

func TestEveryWriteIsSynced(t *testing.T) {
	s := start(t, options(t))
	if !s.nats.JetStreamConfig().SyncAlways {
		t.Error("JetStream acknowledges writes before they are synced")
	}
}

func TestKeysAreForTheOwnerOnly(t *testing.T) {
	o := options(t)
	start(t, o)
	for _, u := range []User{UserSystem, UserClient} {
		info, err := os.Stat(CredsFile(o.CredsDir, u))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", info.Name(), info.Mode().Perm())
		}
	}
	for _, dir := range []string{o.StoreDir, o.CredsDir} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %o, want 700", dir, info.Mode().Perm())
		}
	}
}

func TestBrokenKeyIsRefused(t *testing.T) {
	o := options(t)
	if err := os.MkdirAll(o.CredsDir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := CredsFile(o.CredsDir, UserClient)
	if err := os.WriteFile(file, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("start: %v, want an error that names %s", err, file)
	}
}

func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := options(t)
	o.Port = l.Addr().(*net.TCPAddr).Port
	_, err = Start(t.Context(), o)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("start: %v, want ErrInUse with the address and what to do", err)
	}
	if _, err := os.Stat(o.StoreDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the refused start left its directory behind (%v)", err)
	}
}

func TestAddressIsFreeAgainAfterShutdown(t *testing.T) {
	o := options(t)
	s := start(t, o)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	if o.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	again := start(t, o)
	if again.URL() != s.URL() {
		t.Errorf("the second server is at %s, want %s", again.URL(), s.URL())
	}
}

func TestOtherMachinesAreKeptOut(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "::", "192.0.2.1"} {
		o := options(t)
		o.Host = host
		if _, err := Start(t.Context(), o); !errors.Is(err, ErrNotLoopback) {
			t.Errorf("listen on %s: %v, want ErrNotLoopback", host, err)
		}
	}
	o := options(t)
	o.Host, o.AllowRemote = "0.0.0.0", true
	start(t, o)
}

func BenchmarkStart(b *testing.B) {
	o := options(b)
	for b.Loop() {
		s, err := Start(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Shutdown()
		b.StartTimer()
	}
}

func BenchmarkPublishSynced(b *testing.B) {
	o := options(b)
	js := withStreams(b, start(b, o), o)
	data := make([]byte, 1024)
	for b.Loop() {
		if _, err := js.Publish(b.Context(), "diapause.v1.event.a.b.c", data); err != nil {
			b.Fatal(err)
		}
	}
}
