package attach

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/diapause/diapause/schemas"
)

// OpSearch searches recordings of sessions: of those that the client lists as standard input, each as a line with a Searched.
// FrameStdout has a Found on each line. The connection is one whose Hello says Search.
const OpSearch = "search"

// The places that a Search looks in.
const (
	InCommands = "commands" // what was typed
	InOutput   = "output"
)

// Search says what is looked for.
type Search struct {
	Words   []string  `json:"words"`
	Regexp  bool      `json:"regexp,omitempty"` // the words are one regular expression
	Since   time.Time `json:"since,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Exit    string    `json:"exit,omitempty"` // of the command: a status, or nonzero
	In      string    `json:"in,omitempty"`   // both if empty
	Context int       `json:"context,omitempty"`
	Limit   int       `json:"limit"`
	Rebuild bool      `json:"rebuild,omitempty"` // the indexes are made again, and nothing is looked for
	// Scope has the host refuse to search the sessions of others, whichever the client lists.
	Scope *Scope `json:"scope,omitempty"`
}

// Scope is whose sessions may be searched.
type Scope struct {
	Tenant  schemas.Tenant    `json:"tenant,omitempty"`  // of every tenant if empty
	Session schemas.SessionID `json:"session,omitempty"` // every one of the tenant if empty
}

// Has reports whether a session is of the scope. Every one is of none.
func (s *Scope) Has(n schemas.Name) bool {
	return s == nil || (s.Tenant == "" || s.Tenant == n.Tenant) && (s.Session == "" || s.Session == n.Session)
}

// Searched is a session that is to be searched.
type Searched struct {
	Name string      `json:"name"`
	UID  schemas.UID `json:"uid"`
	// Version is that of the record as the client has it; the host looks it up if it has another one, or if it is 0.
	Version uint64 `json:"version,omitempty"`
}

// Found is a line that was looked for.
type Found struct {
	Session string    `json:"session"`
	Time    time.Time `json:"time"`
	In      string    `json:"in"`                // InCommands or InOutput
	Command int64     `json:"command,omitempty"` // its number, if it is known
	Text    string    `json:"text,omitempty"`    // of the command
	Exit    *int      `json:"exit,omitempty"`    // of the command
	At      int64     `json:"at"`                // position of the line in the output, in bytes
	Line    string    `json:"line"`
	Before  []string  `json:"before,omitempty"`
	After   []string  `json:"after,omitempty"`
}

// Newest orders lines that were found, the last one first.
func Newest(a, b Found) int {
	return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Session, b.Session), cmp.Compare(b.At, a.At), cmp.Compare(a.In, b.In))
}

// Nonzero is an exit of all commands that failed.
const Nonzero = "nonzero"

// ExitedWith reports whether a command ended with a status: a number, or Nonzero. All did if it is empty.
func ExitedWith(c schemas.TypedCommand, exit string) bool {
	switch {
	case exit == "":
		return true
	case c.Exit == nil:
		return false
	case exit == Nonzero:
		return *c.Exit != 0
	}
	return strconv.Itoa(*c.Exit) == exit
}

// maxFound bounds a line of an answer, in bytes.
const maxFound = 1 << 20

// FetchFound asks for lines over a connection to a host, and closes it. notes gets what is said of sessions that couldn't be searched.
func FetchFound(conn net.Conn, q Search, of []Searched, notes io.Writer, fn func(Found) error) error {
	defer conn.Close()
	if err := WriteJSON(conn, FrameRequest, Request{Op: OpSearch, Search: &q}); err != nil {
		return ErrLost
	}
	out := bufio.NewWriterSize(FrameWriter{To: conn, Kind: FrameStdin}, 32<<10)
	enc := json.NewEncoder(out)
	for _, s := range of {
		if err := enc.Encode(s); err != nil {
			return ErrLost
		}
	}
	if out.Flush() != nil || WriteFrame(conn, FrameStdinEOF, nil) != nil {
		return ErrLost
	}
	var lines foundLines
	for {
		kind, payload, err := ReadFrame(conn)
		if err != nil {
			return ErrLost
		}
		switch kind {
		case FrameStdout:
			err = lines.take(payload, fn)
		case FrameStderr:
			err = write(notes, payload)
		case FrameError:
			return RemoteError(payload)
		case FrameExit:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// foundLines cuts an answer into its lines.
type foundLines struct{ rest []byte }

func (l *foundLines) take(p []byte, fn func(Found) error) error {
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			if len(l.rest) > maxFound {
				return errors.New("read what was found: a line is too long")
			}
			return nil
		}
		var f Found
		if err := json.Unmarshal(line, &f); err != nil {
			return fmt.Errorf("read what was found: %w", err)
		}
		l.rest = rest
		if err := fn(f); err != nil {
			return err
		}
	}
}

// maxSearched bounds how many sessions a client lists, and maxListed in how many bytes.
const (
	maxSearched = 1 << 20
	maxListed   = 64 << 20
)

// ReadSearched reads the sessions that a client lists.
func ReadSearched(conn io.Reader) (all []Searched, err error) {
	in := &io.LimitedReader{R: &InputReader{From: conn}, N: maxListed}
	dec := json.NewDecoder(in)
	for {
		var s Searched
		if err := dec.Decode(&s); in.N == 0 {
			return nil, errors.New("read what is to be searched: too much")
		} else if errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what is to be searched: %w", err)
		}
		if all = append(all, s); len(all) > maxSearched {
			return nil, errors.New("read what is to be searched: too many sessions")
		}
	}
}
