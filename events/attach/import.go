package attach

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/diapause/diapause/schemas"
)

// The bounds of an import: for a piece of the recording to come, and for a session to be made of it.
const (
	pieceWait = time.Minute
	madeWait  = 5 * time.Minute
)

// SendImport sends a recording over a connection to a host whose Hello says Import, and closes it. Once the host has taken
// in all of it, commit makes a session of that. When SendImport returns nil, the session has the recording.
func SendImport(conn net.Conn, from io.Reader, commit func(schemas.Imported) error) error {
	defer conn.Close()
	if err := WriteJSON(conn, FrameRequest, Request{Op: OpImport}); err != nil {
		return ErrLost
	}
	read := make(chan error, 1)
	go func() {
		err := sendAll(conn, from)
		if read <- err; err != nil {
			conn.Close() // the host drops what came
		}
	}()
	for {
		kind, payload, err := ReadFrame(conn)
		if err != nil {
			select {
			case err := <-read:
				if err != nil {
					return err
				}
			default:
			}
			return ErrLost
		}
		switch kind {
		case FrameStdout:
			var taken schemas.Imported
			if err := json.Unmarshal(payload, &taken); err != nil {
				return fmt.Errorf("read what was taken in: %w", err)
			}
			if err := commit(taken); err != nil {
				return err
			}
			if err := WriteFrame(conn, FrameHeard, nil); err != nil {
				return ErrLost
			}
		case FrameError:
			return RemoteError(payload)
		case FrameExit:
			return nil
		}
	}
}

// sendAll sends all that is read. Its error is that of from.
func sendAll(conn net.Conn, from io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && WriteFrame(conn, FrameStdin, buf[:n]) != nil {
			return nil // the connection ended, as its reader sees too
		}
		switch err {
		case nil:
		case io.EOF:
			_ = WriteFrame(conn, FrameStdinEOF, nil) // likewise
			return nil
		default:
			return err
		}
	}
}

// Import is the host's end of SendImport: it reads the recording, and has Taken and Kept answer.
type Import struct {
	conn net.Conn
	rest []byte
	end  bool
}

// ReceiveImport reads the request of a client that sends a recording.
func ReceiveImport(conn net.Conn) (*Import, error) {
	r, err := ReadRequest(conn)
	if err == nil && r.Op != OpImport {
		err = fmt.Errorf("read the request: it is %.40q", r.Op)
	}
	return &Import{conn: conn}, err
}

// Read gives the recording. A client that goes in the middle of it is io.ErrUnexpectedEOF.
func (i *Import) Read(p []byte) (int, error) {
	for len(i.rest) == 0 {
		if i.end {
			return 0, io.EOF
		}
		if err := i.conn.SetReadDeadline(time.Now().Add(pieceWait)); err != nil {
			return 0, err
		}
		kind, payload, err := ReadFrame(i.conn)
		switch {
		case err != nil:
			return 0, fmt.Errorf("the client stopped sending: %w", io.ErrUnexpectedEOF)
		case kind == FrameStdin:
			i.rest = payload
		case kind == FrameStdinEOF:
			i.end = true
		}
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	return n, nil
}

// Taken says what was taken in, and returns once the client has made a session of it.
func (i *Import) Taken(what schemas.Imported) error {
	if err := WriteJSON(i.conn, FrameStdout, what); err != nil {
		return err
	}
	if err := i.conn.SetReadDeadline(time.Now().Add(madeWait)); err != nil {
		return err
	}
	for {
		kind, _, err := ReadFrame(i.conn)
		if err != nil {
			return fmt.Errorf("no session was made of what was imported: %w", err)
		}
		if kind == FrameHeard {
			return nil
		}
	}
}

// Kept says that the session has the recording.
func (i *Import) Kept() error { return WriteJSON(i.conn, FrameExit, schemas.ExitStatus{}) }
