package stream_test

import (
	"testing"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Of API servers that choose one port at the same time one gets it; who reads the places isn't told of claims.
func TestClaimPort(t *testing.T) {
	js, names := natstest.Streams(t), stream.NamesWith("")
	const servers = 5
	got := make(chan bool, servers)
	for range servers {
		go func() {
			ok, err := stream.Publisher{JS: js}.ClaimPort(t.Context(), names, 25900)
			if err != nil {
				t.Error(err)
			}
			got <- ok
		}()
	}
	n := 0
	for range servers {
		if <-got {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d have the port", n)
	}
	if ok, err := (stream.Publisher{JS: js}).ClaimPort(t.Context(), names, 25901); !ok || err != nil {
		t.Errorf("another port: %t, %v", ok, err)
	}
	place := schemas.Place{Host: "h", ID: "p"}
	if err := (stream.Publisher{JS: js}).Place(t.Context(), names, place); err != nil {
		t.Fatal(err)
	}
	seen := make(chan schemas.Place, 10)
	go func() { _ = stream.Places(t.Context(), js, names, func(p schemas.Place) { seen <- p }) }()
	if p := <-seen; p.ID != "p" {
		t.Errorf("a reader of places is told of %+v", p)
	}
}
