package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// What the program really writes and prints is valid.
func TestRealDocuments(t *testing.T) {
	s := start(t)
	c := newChecker(t)
	progress := follow(t, s)
	for _, args := range [][]string{
		{"run", "--name", "work", "--idle", "1h", "--", "sleep", "1000"}, {"checkpoint", "work", "--description", "d", "--run-id", "r"},
		{"hold", "work", "--for", "1h", "--reason", "x"}, {"suspend", "work"}, {"ensure", "work"}, {"fork", "work", "copy"},
		{"run", "--name", "brief", "--", "sh", "-c", "exit 3"}, {"suspend", "copy"},
	} {
		if _, err := s.Must(args...); err != nil {
			t.Fatal(err)
		}
	}
	s.Do("run", "--name", "none", "--", "/no/such/command")
	printed(t, s, c)
	published(t, s, c)
	headers(t, s, c)
	check(t, c, "progress", "diapause.v1.progress", <-progress)
}

func start(t *testing.T) *stack.Stack {
	t.Helper()
	s, _ := stack.Fresh(t)
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	return s
}

func check(t *testing.T, c checker, name, from string, data []byte) {
	t.Helper()
	if err := c.valid(name, data); err != nil {
		t.Errorf("%s of %s: %v\n%s", name, from, err, data)
	}
	if err := faithful(name, data); err != nil {
		t.Errorf("%s of %s: %v\n%s", name, from, err, data)
	}
}

// printed checks what the reading verbs print.
func printed(t *testing.T, s *stack.Stack, c checker) {
	t.Helper()
	for _, v := range []struct {
		name string
		args []string
		list bool
	}{
		{"view", []string{"ls", "--json"}, true}, {"view", []string{"show", "--json", "work"}, false},
		{"transition", []string{"history", "--json", "work"}, true}, {"snapshot_view", []string{"snapshots", "--json", "work"}, true},
		{"explanation", []string{"explain", "--json", "work"}, false}, {"explanation", []string{"explain", "--json", "copy"}, false},
		{"keys_view", []string{"key", "ls", "--json"}, false}, {"keys_view", []string{"key", "revoke", "--json", "--tenant", "acme", string(s.Host)}, false},
	} {
		out, err := s.Must(v.args...)
		if err != nil {
			t.Fatal(err)
		}
		docs := []json.RawMessage{json.RawMessage(out)}
		if v.list {
			if err := json.Unmarshal([]byte(out), &docs); err != nil || len(docs) == 0 {
				t.Fatalf("%v: %d documents, %v", v.args, len(docs), err)
			}
		}
		for _, doc := range docs {
			check(t, c, v.name, v.args[0], doc)
		}
	}
}

func connect(t *testing.T, s *stack.Stack) *nats.Conn {
	t.Helper()
	nc, err := natsconn.Connect(t.Context(), s.Secure, filepath.Join(s.Data, "creds", "client.nk"), "schema test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// follow gives the first progress message.
func follow(t *testing.T, s *stack.Stack) <-chan []byte {
	t.Helper()
	nc, first := connect(t, s), make(chan []byte, 1)
	_, err := nc.Subscribe(schemas.SubjectProgress+".>", func(m *nats.Msg) {
		select {
		case first <- m.Data:
		default:
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// published checks every message of every stream.
func published(t *testing.T, s *stack.Stack, c checker) {
	t.Helper()
	js, err := jetstream.New(connect(t, s))
	if err != nil {
		t.Fatal(err)
	}
	names := stream.NamesWith("")
	for streamName, document := range map[string]string{
		names.SessionStream(): "session_record", names.Activity(): "activity", names.Events(): "event", "KV_" + names.Hosts(): "host",
		names.LeaseStream(): "host_lease", names.KeyStream(): "tenant_keys",
	} {
		messages := read(t, js, streamName)
		if len(messages) == 0 && document != "event" {
			t.Errorf("stream %s has no messages", streamName)
		}
		for _, m := range messages {
			check(t, c, document, m.Subject(), m.Data())
		}
	}
}

func read(t *testing.T, js jetstream.JetStream, name string) (all []jetstream.Msg) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	info, err := js.Stream(ctx, name)
	if err != nil {
		t.Fatalf("find stream %s: %v", name, err)
	}
	cons, err := info.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatalf("read stream %s: %v", name, err)
	}
	for left := info.CachedInfo().State.Msgs; left > 0; left-- {
		m, err := cons.Next(jetstream.FetchMaxWait(10 * time.Second))
		if err != nil {
			t.Fatalf("read stream %s: %v", name, err)
		}
		all = append(all, m)
	}
	return all
}

// headers checks the clear headers of all snapshots.
func headers(t *testing.T, s *stack.Stack, c checker) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Data, "objects", "*", "*", "snaps", "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("found %d snapshots: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitN(data, []byte("\n"), 3)
		if len(lines) < 3 {
			t.Fatalf("%s has no clear header", file)
		}
		header := lines[0]
		if !json.Valid(header) {
			header = lines[1]
		}
		check(t, c, "image_header", file, header)
	}
}
