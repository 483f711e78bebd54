package attach

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/diapause/diapause/schemas"
)

// The kinds of frames. A frame is one byte for its kind, four for the length of its
// payload (big endian), and the payload. The first frame of a client is a FrameRequest.
const (
	FrameRequest   = byte('R') // JSON: Request
	FrameStdin     = byte('i')
	FrameStdinEOF  = byte('I') // empty: no more input
	FrameResize    = byte('w') // JSON: Size
	FrameStdout    = byte('o') // also what a terminal shows, and the content of a copy
	FrameStderr    = byte('e')
	FrameStarted   = byte('s') // the command was executed, the copy is ready; to a typist JSON: Taken
	FrameTaken     = byte('t') // JSON: Taken; to a typist, each time that the session took input
	FrameExit      = byte('x') // JSON: schemas.ExitStatus; the last frame
	FrameError     = byte('!') // text for a person; the last frame
	FrameGone      = byte('g') // empty: the command to connect to again isn't there; the last frame
	FrameHeard     = byte('h') // empty: the client of an exec with a Typist has got FrameExit, or that of an import has made the session
	FrameStdoutEOF = byte('O') // empty: a forwarded connection's other end sends no more
	FrameRefused   = byte('r') // text for a person: nothing listens at the port; the last frame
	FrameOffer     = byte('d') // JSON: Offer; to a client whose Hello says Direct, in answer to its request
	FrameStay      = byte('D') // empty: the client doesn't take the offer, and wants its answer here
	FrameScreen    = byte('p') // JSON: Screen; to a client that asked for it, with what paints it in FramePaint
	FramePaint     = byte('P') // a part of what paints a screen
)

// MaxFrame bounds the payload of a frame, in bytes.
const MaxFrame = 256 << 10

// PictureFile is where an image has what the desktop showed, in its folder meta.
const PictureFile = "desktop.jpg"

// The operations of a Request.
const (
	OpAttach  = "attach"  // follow the main command and type to it
	OpExec    = "exec"    // run one more command in the session
	OpRejoin  = "rejoin"  // connect again to a command that OpExec started, by its Typist
	OpOutput  = "output"  // read the main command's output
	OpPut     = "put"     // unpack a tar stream, sent as stdin, below Path
	OpGet     = "get"     // send Path as a tar stream on stdout
	OpScreen  = "screen"  // send what the main command's terminal shows: FrameScreen, FramePaint, FrameExit
	OpPicture = "picture" // send what the desktop of a session that sleeps showed last, a JPEG: FramePaint, FrameExit
	OpWatch   = "watch"   // follow the main command's terminal, and nothing else: nothing that the client sends counts
	OpImport  = "import"  // take in a recording, sent as stdin, of which a session is made: see SendImport
	OpForward = "forward" // connect to Port in the session, and carry stdin and stdout both ways
)

// Request says what a client wants of a session.
type Request struct {
	Op     string   `json:"op"`
	Argv   []string `json:"argv,omitempty"` // exec
	Env    []string `json:"env,omitempty"`  // exec: in place of the session's own, if given
	Dir    string   `json:"dir,omitempty"`  // exec: in place of the session's own, if given
	User   string   `json:"user,omitempty"` // exec: likewise
	TTY    bool     `json:"tty,omitempty"`  // exec: with a terminal of its own
	Stdin  bool     `json:"stdin,omitempty"`
	Rows   uint16   `json:"rows,omitempty"`   // attach, exec: the client's window, if it has one
	Cols   uint16   `json:"cols,omitempty"`   //
	Tail   int64    `json:"tail,omitempty"`   // attach, output: bytes to show of what was, all that is kept if negative
	Follow bool     `json:"follow,omitempty"` // output: go on until the session ends

	// Attach: a client with a random name of its own, a typist, is told how much of its
	// input the session has taken, and may connect again under that name. From is then
	// the position up to which it no longer has its input, and Seen the position up to
	// which it got the output, both in bytes from the beginning and 0 the first time.
	// Again says that this isn't the first connection.
	Typist string `json:"typist,omitempty"`
	From   int64  `json:"from,omitempty"`
	Seen   int64  `json:"seen,omitempty"`
	Again  bool   `json:"again,omitempty"`
	// A typist with Screen gets the screen in place of output that came before, and whenever it is too far behind
	// with the output. It is told of other sizes of the terminal by FrameResize. Its terminal must not answer what
	// the program asks for: the session's end does while no client without Screen is attached.
	Screen bool `json:"screen,omitempty"`
	// Attach: who types, for the list of commands. The session's end takes no other values than schemas has.
	By schemas.MadeBy `json:"by,omitempty"`
	// Watch: by which share, as schemas.Share has its id. Seen is as of an attach.
	Share string `json:"share,omitempty"`
	// The client of an exec that has such a name may connect again by a rejoin, with Typist, From
	// and Seen alone and its window.

	// Output: all that was recorded comes first, where the session's host or another can read it.
	History *History `json:"history,omitempty"`
	// Output: begin at the position Seen, if that is still kept, and say in FrameStarted, as Taken.At, where
	// what follows begins. It is for a host that asks its own session.
	Positions bool `json:"positions,omitempty"`

	// Search: what is looked for.
	Search *Search `json:"search,omitempty"`

	Path string `json:"path,omitempty"` // put, get: absolute, inside the session
	Port uint16 `json:"port,omitempty"` // forward
	// Forward: keys and pointers of a VNC client count as input of the session, if the port is that of its desktop. Who asks doesn't say so itself.
	Viewer bool `json:"viewer,omitempty"`
}

// History says how a recording is to be shown.
type History struct {
	Since time.Time `json:"since,omitzero"`  // nothing that is older
	Times bool      `json:"times,omitempty"` // each line begins with its time
	// Events has the events of the recording alone come, each as a line of JSON.
	Events bool `json:"events,omitempty"`
	// Framed has the events begin where it can be told what the terminal showed at Since: with a frame, or at the beginning.
	// An event CodeFrom says the moment, first.
	Framed bool `json:"framed,omitempty"`
	// After is in place of Since, of events that are framed: so long after the first one.
	After time.Duration `json:"after,omitempty"`
	// Commands has the commands come that were typed, the last one first, each as a line of JSON: so many of them, or all if
	// it is negative. FrameStarted has a Kept.
	Commands int `json:"commands,omitempty"`
	// Command has the output of that command come, by its number. FrameStarted has a Kept with it.
	Command int64 `json:"command,omitempty"`
	// Spec has come how the session is run, a schemas.Spec as JSON: in the directory that its terminal was in last. FrameStarted has a
	// Kept.
	Spec bool `json:"spec,omitempty"`
}

// Kept is what a host says in FrameStarted that knows what History.Commands and History.Command are, and with Spec
// what that is.
type Kept struct {
	Commands bool                  `json:"commands"`
	Spec     bool                  `json:"spec,omitempty"`
	Command  *schemas.TypedCommand `json:"command,omitempty"`
	// None says that there is no such command. FrameError follows.
	None bool `json:"none,omitempty"`
}

// CodeFrom is the code of an event that no recording has: from its time on what was recorded is wanted.
const CodeFrom = "from"

// Event is an entry of a recording, of a kind as recordings have it.
type Event struct {
	Time   time.Time `json:"time"`
	At     int64     `json:"at"` // position in the output, in bytes
	Code   string    `json:"code"`
	Text   string    `json:"text,omitempty"`
	Base64 []byte    `json:"base64,omitempty"` // in place of Text, if it isn't UTF-8
}

// Data is the data of the event.
func (e Event) Data() []byte {
	if e.Base64 != nil {
		return e.Base64
	}
	return []byte(e.Text)
}

// Size is the size of a terminal's window, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Taken is what a session says to a typist: how many bytes of its input it has taken, over
// all connections. What a session has taken is in its image.
type Taken struct {
	Taken int64 `json:"taken"`
	At    int64 `json:"at,omitempty"` // in FrameStarted: the position of the first byte of output that follows
	// Screen says, in FrameStarted, that the session's end knows what Request.Screen is.
	Screen bool `json:"screen,omitempty"`
}

// Screen is what a terminal shows, but for the bytes that paint it.
type Screen struct {
	Size
	At      int64 `json:"at"`                // the position of the first byte of output that follows
	Paint   int   `json:"paint"`             // how many bytes paint it
	Dropped byte  `json:"dropped,omitempty"` // what follows begins within a control string, as screen.Screen.Dropped says
}

// WriteFrame writes one frame with a single Write, so that frames of several
// goroutines don't mix if w serialises writes, as net.Conn does.
func WriteFrame(w io.Writer, kind byte, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("write frame: %d bytes are more than %d", len(payload), MaxFrame)
	}
	b := make([]byte, 0, headSize+len(payload))
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	if _, err := w.Write(append(b, payload...)); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

// WriteJSON writes one frame whose payload is v as JSON.
func WriteJSON(w io.Writer, kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	return WriteFrame(w, kind, b)
}

// beginning is how much of a payload has memory before any of it has come: a client that says only how
// long its frame is costs no more.
const beginning = 32 << 10

// ReadFrame reads one frame. The error is io.EOF if the stream ended before it.
func ReadFrame(r io.Reader) (kind byte, payload []byte, err error) {
	in := frames{from: r}
	return in.next()
}

// headSize is that of what is before the payload of a frame.
const headSize = 5

// frames reads one frame after another.
type frames struct {
	from    io.Reader
	payload []byte // of the last one
}

// next reads as ReadFrame does. The payload is valid until it is called again.
func (f *frames) next() (kind byte, payload []byte, err error) {
	var head [headSize]byte
	if _, err := io.ReadFull(f.from, head[:1]); err != nil {
		return 0, nil, err
	}
	if _, err := io.ReadFull(f.from, head[1:]); err != nil {
		return 0, nil, fmt.Errorf("read frame: %w", io.ErrUnexpectedEOF)
	}
	size := int(binary.BigEndian.Uint32(head[1:]))
	if size > MaxFrame {
		return 0, nil, fmt.Errorf("read frame: %d bytes are more than %d", size, MaxFrame)
	}
	first := min(size, max(beginning, cap(f.payload)))
	f.payload = slices.Grow(f.payload[:0], first)[:first]
	_, err = io.ReadFull(f.from, f.payload)
	if err == nil && first < size {
		f.payload = slices.Grow(f.payload, size-first)[:size]
		_, err = io.ReadFull(f.from, f.payload[first:])
	}
	if err != nil {
		return 0, nil, fmt.Errorf("read frame: %w", io.ErrUnexpectedEOF)
	}
	return head[0], f.payload, nil
}
