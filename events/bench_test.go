package events

import (
	"fmt"
	"testing"
)

// What it costs a service to say that one of ten thousand sessions is in use.
func BenchmarkInput(b *testing.B) {
	o := newOutbox()
	words := make([]word, 10_000)
	for i := range words {
		words[i] = word{subject: fmt.Sprintf("diapause.v1.activity.acme.web-%d.input", i), data: []byte(`{"by":"gateway"}`)}
	}
	now := t0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(10_000)
		o.put(words[i%len(words)], now)
		o.take(now)
	}
}
