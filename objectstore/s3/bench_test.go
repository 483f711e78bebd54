package s3_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/diapause/diapause/objectstore/s3"
	"github.com/diapause/diapause/objectstore/storetest/server"
)

// Packs of 16 MiB to MinIO on the same machine and back.
func BenchmarkMinIO(b *testing.B) {
	srv, err := server.Start(b.Context(), server.MinIO, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Kill()
	b.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	b.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	o, err := s3.Parse(srv.URL(""))
	if err != nil {
		b.Fatal(err)
	}
	s, err := s3.Open(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 16<<20)
	rand.Read(data)
	count := 0
	b.Run("put", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := s.Put(b.Context(), fmt.Sprint("p/", os.Getpid(), "-", count), bytes.NewReader(data), int64(len(data))); err != nil {
				b.Fatal(err)
			}
			count++
		}
	})
	b.Run("get", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			r, err := s.Get(b.Context(), fmt.Sprint("p/", os.Getpid(), "-0"), 0, -1)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				b.Fatal(err)
			}
			r.Close()
		}
	})
}
