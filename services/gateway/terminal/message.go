package terminal

import (
	"encoding/binary"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// Protocol is the subprotocol of the WebSocket.
const Protocol = "diapause.terminal.v1"

// The types of messages of a client.
const (
	typeAttach = "attach" // the first
	typeResize = "resize"
	typeShown  = "shown"
	typeWake   = "wake"
)

// asked is a message of a client that isn't what was typed.
type asked struct {
	Type string `json:"type"`
	attach.Size

	// Of attach: who attaches, and what it has, if it did before.
	Client  string      `json:"client"`
	Session schemas.UID `json:"session"`
	Run     uint64      `json:"run"`
	At      int64       `json:"at"`
	Taken   int64       `json:"taken"`
	Asleep  bool        `json:"asleep"` // don't wake it
	Flow    bool        `json:"flow"`   // it says how much it has shown

	Bytes int64 `json:"bytes"` // of shown
}

// The types of messages for a client.
const (
	TypeState    = "state"
	typeStage    = "stage"
	typeMoved    = "moved"
	typeAttached = "attached"
	typeSize     = "size"
	typeTaken    = "taken"
	TypeEnded    = "ended"
	typeError    = "error"
)

// Message is what a client is told, beside the terminal's output.
type Message struct {
	Type string `json:"type" enum:"state,stage,moved,attached,size,taken,ended,error"`

	State  schemas.State `json:"state,omitempty" doc:"Of state: how the session is"`
	Reason string        `json:"reason,omitempty" doc:"Of state: why, for a person"`

	Stage string `json:"stage,omitempty" doc:"Of stage: what is done to wake it"`
	Bytes int64  `json:"bytes,omitempty" doc:"Of stage: so many so far"`
	Of    int64  `json:"of,omitempty" doc:"Of stage: of about so many"`

	Host schemas.HostID `json:"host,omitempty" doc:"Of moved and attached: where the session runs"`

	Session schemas.UID `json:"session,omitempty" doc:"Of attached: say it in the next attach"`
	Run     uint64      `json:"run,omitempty" doc:"Of attached: say it in the next attach"`
	Exact   *bool       `json:"exact,omitempty" doc:"Of attached: false if there is no screen, but the last of the output"`
	Taken   *int64      `json:"taken,omitempty" doc:"Of attached and taken: the session has taken what was typed up to here"`

	Rows uint16 `json:"rows,omitempty" doc:"Of size: the terminal's"`
	Cols uint16 `json:"cols,omitempty" doc:"Of size: the terminal's"`

	Exit    *schemas.ExitStatus `json:"exit,omitempty" doc:"Of ended, if the session ended by itself"`
	Problem any                 `json:"problem,omitempty" doc:"Of error"`
}

// The kinds of binary messages for a client. After that come eight bytes, the position of the output up to which
// the client has it with this message.
const (
	kindOutput = 'o'
	// KindScreen is a whole screen, in place of what was shown before.
	KindScreen = 's'
)

// headSize is that of what precedes the bytes of a binary message for a client; positionSize for what is typed.
const (
	headSize     = 1 + positionSize
	positionSize = 8
)

// binaryMessage makes one for a client.
func binaryMessage(kind byte, at int64, parts ...[]byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{kind}, uint64(at))
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}
