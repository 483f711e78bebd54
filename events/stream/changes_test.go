package stream_test

import (
	"context"
	"testing"
	"time"

	"github.com/diapause/diapause/events/natstest"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// A change is told of what is stored, and of a stream that is deleted and made again while the
// connection stays.
func TestChanges(t *testing.T) {
	t.Parallel()
	js, names := natstest.Streams(t), stream.NamesWith("")
	told := make(chan bool, 100)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		stream.Changes(ctx, js, names.Activity(), nil, func(lost bool) { told <- lost })
		close(ended)
	}()
	await := func(what string, lost bool) {
		t.Helper()
		for {
			select {
			case is := <-told:
				if is == lost {
					return
				}
			case <-time.After(limit):
				t.Fatal("not told: " + what)
			}
		}
	}
	await("that it listens", false)
	publish := func() {
		t.Helper()
		n := schemas.Name{Tenant: "acme", Session: "web"}
		if _, err := (stream.Publisher{JS: js}).Activity(t.Context(), n, schemas.KindInput, "", schemas.Activity{}); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	await("of a message", false)
	if err := js.DeleteStream(t.Context(), names.Activity()); err != nil {
		t.Fatal(err)
	}
	await("of the loss", true)
	if err := stream.Ensure(t.Context(), js, names, 1); err != nil {
		t.Fatal(err)
	}
	for heard := false; !heard; { // it listens again after a moment
		publish()
		select {
		case lost := <-told:
			heard = !lost
		case <-time.After(100 * time.Millisecond):
		}
	}
	stop()
	<-ended
}
