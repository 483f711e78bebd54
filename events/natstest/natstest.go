package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
)

// limit bounds each wait: it is only reached when something is broken.
const limit = time.Minute

// Serve starts a server. It ends with the test, if the test hasn't ended it.
func Serve(t testing.TB) *server.Server {
	t.Helper()
	return ServeWith(t, server.Options{})
}

// ServeWith starts a server that is as o says: on its port and in its directory, if it
// has any, as one that is started again has to be.
func ServeWith(t testing.TB, o server.Options) *server.Server {
	t.Helper()
	o.JetStream, o.Host, o.NoLog, o.NoSigs = true, "127.0.0.1", true, true
	if o.StoreDir == "" {
		o.StoreDir = t.TempDir()
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(limit) {
		t.Fatal("the NATS server doesn't start")
	}
	return s
}

// AwaitInterest waits until there is a subscription to a subject: what is
// published before it is lost to the subscriber.
func AwaitInterest(t testing.TB, s *server.Server, subject string) {
	t.Helper()
	for end := time.Now().Add(limit); s.GlobalAccount().Interest(subject) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing subscribes to %s", subject)
		}
	}
}

// Connect gives JetStream on a connection of its own, which ends with the test.
func Connect(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Streams gives JetStream of a new server with the streams and buckets of
// stream.NamesWith("").
func Streams(t testing.TB) jetstream.JetStream {
	t.Helper()
	js := Connect(t, Serve(t).ClientURL())
	if err := stream.Ensure(t.Context(), js, stream.NamesWith(""), 1); err != nil {
		t.Fatal(err)
	}
	return js
}
