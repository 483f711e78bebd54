package connect

import (
	"context"
	"io"
	"testing"

	"github.com/diapause/diapause/schemas"
)

// A client in the process reaches a port of a session that runs here, in the life that it has seen, and no other.
func TestDialPort(t *testing.T) {
	b := newBench(t)
	seen := schemas.View{Name: "s", UID: "u", Host: "h"}
	c, err := b.server.DialPort(t.Context(), seen, 8080)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); string(text) != "8080\nhello" || err != nil {
		t.Errorf("the port answers %q, %v", text, err)
	}
	c.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.server.DialPort(ended, seen, 8080); err == nil {
		t.Error("a client that is gone is connected")
	}
	for what, change := range map[string]func(*schemas.SessionRecord){
		"another life":   func(r *schemas.SessionRecord) { r.UID = "v" },
		"another host":   func(r *schemas.SessionRecord) { r.Host = "i" },
		"suspended":      func(r *schemas.SessionRecord) { r.State = schemas.Suspended },
		"another driver": func(r *schemas.SessionRecord) { r.Driver = "none" },
	} {
		is := b.record
		b.mu.Lock()
		change(&b.record)
		b.mu.Unlock()
		if _, err := b.server.DialPort(t.Context(), seen, 8080); err == nil {
			t.Errorf("%s: it is connected", what)
		}
		b.mu.Lock()
		b.record = is
		b.mu.Unlock()
	}
}
