package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/diapause/diapause/schemas"
)

// ErrOlder says that the program of a session's host doesn't know what is asked for.
var ErrOlder = errors.New("the host's program is older, and doesn't know what is asked for")

// NoCommandError is RemoteError of a command that the session doesn't have, or that wasn't kept.
type NoCommandError struct{ RemoteError }

// Unwrap gives the text.
func (e NoCommandError) Unwrap() error { return e.RemoteError }

// FetchKept asks for commands, or the output of one, over a connection to a session, and closes it. began is called with the command
// before its output comes.
func FetchKept(conn net.Conn, h History, s Streams, began func(schemas.TypedCommand)) error {
	defer conn.Close()
	if err := WriteJSON(conn, FrameRequest, Request{Op: OpOutput, Tail: -1, History: &h}); err != nil {
		return ErrLost
	}
	for known, none := false, false; ; {
		kind, payload, err := ReadFrame(conn)
		if err != nil {
			return ErrLost
		}
		switch kind {
		case FrameStarted:
			var k Kept
			if len(payload) > 0 {
				err = json.Unmarshal(payload, &k)
			}
			if err != nil {
				return fmt.Errorf("read which command it is: %w", err)
			}
			if known, none = k.Commands && (k.Spec || !h.Spec), k.None; known && k.Command != nil {
				began(*k.Command)
			}
		case FrameStdout:
			if known {
				err = write(s.Stdout, payload)
			}
		case FrameStderr:
			err = write(s.Stderr, payload)
		case FrameError:
			if none {
				return NoCommandError{RemoteError(payload)}
			}
			return RemoteError(payload)
		}
		switch {
		case kind != FrameStderr && !known:
			return ErrOlder
		case kind == FrameExit:
			return nil
		case err != nil:
			return fmt.Errorf("pass on output: %w", err)
		}
	}
}
