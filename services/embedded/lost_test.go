package embedded

import (
	"testing"
	"time"
)

// What the server drops, since a stream can't keep up, is told: no reader of the stream can notice.
func TestDroppedActivityIsTold(t *testing.T) {
	o := options(t)
	s := start(t, o)
	withStreams(t, s, o)
	nc := connect(t, s, "", s.InProcess())
	for end := time.Now().Add(patience); ; {
		if err := nc.Publish(edgeSubject, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case taken := <-s.Intake():
			if !taken {
				t.Error("activity isn't taken any more")
			}
			return
		default:
		}
		if time.Now().After(end) {
			t.Fatal("nothing was told")
		}
	}
}
