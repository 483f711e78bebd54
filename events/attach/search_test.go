package attach

import (
	"bytes"
	"strings"
	"testing"
)

// What a client lists is bounded, also within one entry.
func TestReadSearched(t *testing.T) {
	list := func(text string) (n int, err error) {
		var b bytes.Buffer
		if _, err := (FrameWriter{To: &b, Kind: FrameStdin}).Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := WriteFrame(&b, FrameStdinEOF, nil); err != nil {
			t.Fatal(err)
		}
		all, err := ReadSearched(&b)
		return len(all), err
	}
	if n, err := list(`{"name":"a","uid":"u"}` + "\n" + `{"name":"b"}`); n != 2 || err != nil {
		t.Errorf("two are %d, %v", n, err)
	}
	if n, err := list(""); n != 0 || err != nil {
		t.Errorf("none are %d, %v", n, err)
	}
	if _, err := list(`{"name":"a"`); err == nil {
		t.Error("a part of one is taken")
	}
	if _, err := list(`{"name":"` + strings.Repeat("x", maxListed) + `"}`); err == nil || !strings.Contains(err.Error(), "too much") {
		t.Errorf("a long one: %v", err)
	}
}
