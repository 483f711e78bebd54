package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	p := newProgress(&out, "suspend", "work", began)
	p.show(began.Add(900 * time.Millisecond))
	p.clear()
	if out.Len() > 0 {
		t.Errorf("shown within a second: %q", out.String())
	}
	p.show(began.Add(1200 * time.Millisecond))
	p.step(schemas.Name{Tenant: "default", Session: "work"}, schemas.Progress{Kind: "suspend", Stage: "store", Bytes: 2e6, Of: 4e6})
	p.show(began.Add(2400 * time.Millisecond))
	p.clear()
	want := "\r\033[Ksuspend work: 1s\r\033[Ksuspend work: store 2.0 MB of 4.0 MB, 2s\r\033[K"
	if out.String() != want {
		t.Errorf("shown: %q, want %q", out.String(), want)
	}
}

// What a worker says of its progress reaches the terminal as text.
func TestProgressIsText(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	p := newProgress(&out, "suspend", "work", began)
	p.step(schemas.Name{Tenant: "default", Session: "work"}, schemas.Progress{Kind: "a\x1b[2J", Stage: "b\x1b]0;c"})
	p.show(began.Add(2 * time.Second))
	if want := "\r\033[Ka\\u001b[2J work: b\\u001b]0;c, 2s"; out.String() != want {
		t.Errorf("shown: %q, want %q", out.String(), want)
	}
}
