package dir

import (
	"bytes"
	"fmt"
	"testing"
)

// BenchmarkPut stores 4 KiB durably, on the file system of the temporary directory.
func BenchmarkPut(b *testing.B) {
	s, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 4096)
	for i := 0; b.Loop(); i++ {
		if err := s.Put(b.Context(), fmt.Sprintf("acme/lin/packs/%d", i), bytes.NewReader(data), int64(len(data))); err != nil {
			b.Fatal(err)
		}
	}
}
