package screen

import (
	"bytes"
	"testing"

	"github.com/diapause/diapause/events/attach/backlog"
)

func BenchmarkYes(b *testing.B) {
	piece := bytes.Repeat([]byte("y\r\n"), 4096/3)
	benchmark(b, piece)
}

func BenchmarkLog(b *testing.B) {
	piece := bytes.Repeat([]byte("2026-01-01T00:00:00Z INFO \x1b[32mlistening\x1b[m on port 8080, 17 sessions, all of them idle\r\n"), 40)
	benchmark(b, piece)
}

func benchmark(b *testing.B, piece []byte) {
	s := New(24, 80)
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		s.Write(piece)
	}
}

func BenchmarkBacklog(b *testing.B) {
	piece := bytes.Repeat([]byte("y\r\n"), 4096/3)
	l := backlog.New(1 << 20)
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		l.Append(backlog.Out, piece)
	}
}

func BenchmarkPaint(b *testing.B) {
	s := New(50, 200)
	s.Write(bytes.Repeat([]byte("\x1b[31mhello \x1b[1mworld\x1b[m "), 1000))
	for b.Loop() {
		s.Paint()
	}
}
