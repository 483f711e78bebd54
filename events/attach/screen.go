package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/diapause/diapause/schemas"
)

// maxPaint bounds what paints a screen, in bytes.
const maxPaint = 16 << 20

// SendScreen answers a request for the screen.
func SendScreen(w io.Writer, head Screen, paint []byte) error {
	head.Paint = len(paint)
	if err := WriteJSON(w, FrameScreen, head); err != nil {
		return err
	}
	for part := range slices.Chunk(paint, MaxFrame) {
		if err := WriteFrame(w, FramePaint, part); err != nil {
			return err
		}
	}
	return WriteJSON(w, FrameExit, schemas.ExitStatus{})
}

// SendPicture answers a request for the picture of a desktop.
func SendPicture(w io.Writer, jpeg []byte) error {
	for part := range slices.Chunk(jpeg, MaxFrame) {
		if err := WriteFrame(w, FramePaint, part); err != nil {
			return err
		}
	}
	return WriteJSON(w, FrameExit, schemas.ExitStatus{})
}

// FetchPicture asks for the picture of a desktop over a connection to its session, and closes it.
func FetchPicture(conn net.Conn) (jpeg []byte, err error) {
	defer conn.Close()
	if err := WriteJSON(conn, FrameRequest, Request{Op: OpPicture}); err != nil {
		return nil, err
	}
	for {
		kind, payload, err := ReadFrame(conn)
		if err != nil {
			return nil, ErrLost
		}
		switch kind {
		case FramePaint:
			if jpeg = append(jpeg, payload...); len(jpeg) > maxPaint {
				return nil, errors.New("read the picture: it is too large")
			}
		case FrameError:
			return nil, RemoteError(payload)
		case FrameExit:
			return jpeg, nil
		}
	}
}

// FetchScreen asks for the screen over a connection to a session, and closes it.
func FetchScreen(conn net.Conn) (head Screen, paint []byte, err error) {
	defer conn.Close()
	if err := WriteJSON(conn, FrameRequest, Request{Op: OpScreen}); err != nil {
		return head, nil, err
	}
	for {
		kind, payload, err := ReadFrame(conn)
		if err != nil {
			return head, nil, ErrLost
		}
		switch kind {
		case FrameScreen:
			if err := json.Unmarshal(payload, &head); err != nil {
				return head, nil, fmt.Errorf("read the screen: %w", err)
			}
		case FramePaint:
			if paint = append(paint, payload...); len(paint) > maxPaint {
				return head, nil, errors.New("read the screen: it is too large")
			}
		case FrameError:
			return head, nil, RemoteError(payload)
		case FrameExit:
			return head, paint, nil
		}
	}
}
