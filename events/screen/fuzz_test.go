package screen

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzWrite: a screen of any bytes is painted as it is, and neither that nor filtered output is answered.
func FuzzWrite(f *testing.F) {
	for _, r := range recorded {
		all, err := os.ReadFile(filepath.Join("testdata", r.program+".bytes"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(all)
	}
	f.Add([]byte("\x1b[38;5m\x1b[;;;H\x1b[999999999999C\x1b]4;1;?\x07\x1bP+q\x1b\\\x05\x1b[?6n\u009bc"))
	f.Add(bytes.Repeat([]byte("\x1b]0;x"), 100))
	f.Fuzz(func(t *testing.T, all []byte) {
		s, filter := New(5, 20), NewFilter(0, 0)
		s.Write(all)
		same(t, "painted", s, repainted(s))
		if answers := New(5, 20).Write(s.Paint()); len(answers) > 0 {
			t.Errorf("a screen is answered with %q", answers)
		}
		if answers := New(5, 20).Write(filter.Write(all)); len(answers) > 0 {
			t.Errorf("output is answered with %q", answers)
		}
		s.Resize(3, 7)
		same(t, "resized", s, repainted(s))
	})
}
