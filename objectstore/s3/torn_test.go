package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/storetest/server"
)

// second is a content that can be read twice and isn't the same the second time:
// it breaks off, or a bit of it has changed.
type second struct {
	*bytes.Reader
	size   int64
	read   int64
	breaks bool
}

var errBroken = errors.New("the content breaks off")

func (s *second) Read(b []byte) (int, error) {
	again := s.read >= s.size
	if again && s.breaks && s.read >= s.size+s.size/2 {
		return 0, errBroken
	}
	n, err := s.Reader.Read(b)
	if again && !s.breaks && n > 0 {
		b[0] ^= 1
	}
	s.read += int64(n)
	return n, err
}

// The checksum goes in front of what can be read twice. What then breaks off, or
// isn't what the checksum is of, is never kept.
func TestTornUploads(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	for _, k := range server.Kinds {
		t.Run(string(k), func(t *testing.T) {
			s := open(t, start(t, k).URL(""))
			for i := range 40 {
				for _, breaks := range []bool{true, false} {
					name := fmt.Sprintf("torn/%d-%t", i, breaks)
					err := s.Put(t.Context(), name, &second{Reader: bytes.NewReader(data), size: int64(len(data)), breaks: breaks}, int64(len(data)))
					if err == nil || breaks && !errors.Is(err, errBroken) {
						t.Fatalf("put %s: error %v", name, err)
					}
				}
			}
			err := s.List(t.Context(), "torn/", func(i objectstore.Info) error {
				t.Errorf("%s is kept, with %d bytes", i.Name, i.Size)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Put(t.Context(), "torn/whole", bytes.NewReader(data), int64(len(data))); err != nil {
				t.Fatal(err)
			}
			r, err := s.Get(t.Context(), "torn/whole", 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes of %d came back, error %v", len(got), len(data), err)
			}
		})
	}
}
