package connect

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// client is the server's end of a connection; what is written to its other end is read from it.
type client struct {
	net.Conn
	gone bool
}

func (c client) Gone() bool { return c.gone }

// A client that was closed leaves a session that prints nothing; one that only has sent all doesn't.
func TestSpliceEndsWithItsClient(t *testing.T) {
	for _, gone := range []bool{true, false} {
		theirs, here := net.Pipe()
		session, quiet := net.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- (&Server{}).splice(context.Background(), schemas.Name{}, client{here, gone}, session, false)
		}()
		theirs.Close()
		if gone {
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("the connection of a client that was closed goes on")
			}
			continue
		}
		if _, err := quiet.Write([]byte("x")); err != nil {
			t.Errorf("a client that still reads has no session: %v", err)
		}
		quiet.Close()
		<-ended
	}
}
