package run

import (
	"context"
	"log/slog"
	"testing"

	"github.com/diapause/diapause/schemas"
)

func TestLocate(t *testing.T) {
	for text, want := range map[string]string{
		"": "objects", "dir:///srv/images/": "dir:///srv/images", "s3://bucket/prefix?endpoint=https://s3.example.org": "s3://bucket/prefix",
	} {
		at, err := Locate(text, t.TempDir(), slog.New(slog.DiscardHandler))
		if err != nil || at.Name != want {
			t.Errorf("%q is %q, %v; want %q", text, at.Name, err, want)
		}
	}
	for _, text := range []string{"dir://relative", "ftp://host", "images"} {
		if _, err := Locate(text, t.TempDir(), slog.New(slog.DiscardHandler)); schemas.CodeOf(err) != schemas.CodeUsage {
			t.Errorf("%q: %v, want a usage error", text, err)
		}
	}
}

func TestListenAddresses(t *testing.T) {
	for _, listen := range []string{"nonsense", "127.0.0.1:high", "127.0.0.1:-1", "127.0.0.1:65536"} {
		if _, err := (NATS{Listen: listen}).reach(context.Background(), nil, nil); schemas.CodeOf(err) != schemas.CodeUsage {
			t.Errorf("%q: %v, want a usage error", listen, err)
		}
	}
	at, err := NATS{URL: "nats://elsewhere:4222", Creds: "file"}.reach(context.Background(), nil, nil)
	if err != nil || at.url != "nats://elsewhere:4222" || at.system != "file" || at.clients != "file" {
		t.Errorf("another's server: %+v, %v", at, err)
	}
}

func TestPartName(t *testing.T) {
	if name, err := partName("mine", "scheduler"); err != nil || name != "mine" {
		t.Errorf("%q, %v", name, err)
	}
	name, err := partName("", "scheduler")
	if err != nil || !schemas.ValidToken(name) {
		t.Errorf("%q, %v; want a token", name, err)
	}
}
