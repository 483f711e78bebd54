package events

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWithin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "generation")
	if url := within(file); url != "" {
		t.Errorf("outside of a session it is %q", url)
	}
	for text, want := range map[string]string{
		`{"generation":1,"name":"work","url":"nats://198.19.0.3:4222"}`: "nats://198.19.0.3:4222",
		`{"generation":1,"name":"work"}`:                                "",
		`not JSON`:                                                      "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if url := within(file); url != want {
			t.Errorf("%s gives %q, want %q", text, url, want)
		}
	}
}
