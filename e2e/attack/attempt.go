package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Attempt is one thing that is tried.
type Attempt struct {
	What string // its name, which no other of its place has
	// Want is the refusal: the name of an error of the kernel, or what Refusal says. Of several, any
	// will do: kernels differ.
	Want []string
	// Host is Want in a session with the host's network, if it differs there. Only lists the networks
	// that it is tried in; all if empty.
	Host []string
	Only string
	// Control has root of the host try it, too, where it must succeed.
	Control bool
	I386    bool // it is a call of 32-bit programs
	Try     func(Facts) error
}

// noSuchCalls is what a call of 32-bit programs comes to on a machine that has none.
const noSuchCalls = Refusal("no such calls")

// Facts are what a session can't know, and what a good guess may give it.
type Facts struct {
	Network string // of the session: private or host; empty on the host

	Data    string   // the data directory
	Secrets []string // files that only the host's root may read, below Data
	Hidden  string   // a file outside of it that the daemon hides
	Store   string   // the store of images, outside of it
	Mark    string   // text in the arguments, environment and packets of others
	Bait    string   // a directory of the host whose files are bait, and seen by sessions
	PIDs    []int    // of processes of the host
	Devices []string // of the host, below /dev
	IPC     int      // key of a segment of System V shared memory of the host
	Hear    string   // address on the host's loopback to which packets with Mark are sent
	Name    string   // of the session
	Other   string   // the name of another session

	Abstract string            // name of an abstract unix socket of the host, without the zero
	Services map[string]string // addresses on which the host, or others, listen
}

// Refusal is a refusal that no error of the kernel says.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// patience is how long one attempt may take.
const patience = 20 * time.Second

// Outcome is what an attempt came to.
type Outcome struct {
	What string `json:"what"`
	// Refused is the error's name; Succeeded if there was none.
	Refused string `json:"refused"`
	Text    string `json:"text,omitempty"`
}

// Succeeded is the Outcome of what was not refused.
const Succeeded = "nothing"

func outcome(what string, err error) Outcome {
	o := Outcome{What: what, Refused: Succeeded}
	if err == nil {
		return o
	}
	o.Text = err.Error()
	var refusal Refusal
	var errno unix.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &refusal):
		o.Refused = string(refusal)
	case errors.As(err, &errno):
		o.Refused = unix.ErrnoName(errno)
	case errors.As(err, &timeout) && timeout.Timeout():
		o.Refused = "timeout"
	default:
		o.Refused = "error"
	}
	return o
}

// The variables by which the program is told what to do.
const (
	FactsVariable = "ATTACK_FACTS" // JSON of Facts
	PlaceVariable = "ATTACK_PLACE" // a key of Places
	oneVariable   = "ATTACK_ONE"   // What of one Attempt
	HostVariable  = "ATTACK_HOST"  // not empty: only attempts with Control
)

// Places are what the program can try, by where it does.
var Places = map[string]func() []Attempt{
	"session":  Session,
	"limited":  Limited,
	"stranger": Stranger,
	"network":  Outside,
}

// Main is the program: it tries what belongs to its place, each attempt in a process of its own, and
// writes what they came to as JSON.
func Main(out io.Writer) error {
	var f Facts
	if err := json.Unmarshal([]byte(os.Getenv(FactsVariable)), &f); err != nil {
		return fmt.Errorf("read the facts: %w", err)
	}
	list, ok := Places[os.Getenv(PlaceVariable)]
	if !ok {
		return fmt.Errorf("%s: there is no such place", os.Getenv(PlaceVariable))
	}
	one, all := os.Getenv(oneVariable), []Outcome{}
	for _, a := range list() {
		switch {
		case one == a.What:
			return json.NewEncoder(out).Encode(outcome(a.What, a.Try(f)))
		case one != "" || os.Getenv(HostVariable) != "" && !a.Control || a.Only != "" && f.Network != "" && f.Network != a.Only:
		default:
			all = append(all, alone(a.What))
		}
	}
	return json.NewEncoder(out).Encode(all)
}

// alone tries one in a process of its own: the next is tried also if that one is killed.
func alone(what string) (o Outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	self := exec.CommandContext(ctx, "/proc/self/exe")
	self.Stdin, self.Env = os.Stdin, append(os.Environ(), oneVariable+"="+what)
	out, err := self.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return Outcome{What: what, Refused: "it hangs"}
	case errors.As(err, &exit) && !exit.Exited():
		return Outcome{What: what, Refused: strings.TrimSpace(exit.String()), Text: string(exit.Stderr)}
	case err == nil:
		err = json.Unmarshal(out, &o)
	}
	if err != nil {
		return Outcome{What: what, Refused: "error", Text: err.Error()}
	}
	return o
}

// call makes a system call that is to be refused.
func call(number uintptr, args ...uintptr) func(Facts) error {
	var a [6]uintptr
	copy(a[:], args)
	return func(Facts) error {
		_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		return asError(errno)
	}
}

func asError(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
