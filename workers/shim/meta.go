package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
)

// The names of criu's external resources and of the files beside its images.
const (
	rootKey      = "root"
	terminalsKey = "terminals"
	metaName     = "session.json"
	logName      = "criu.log"
)

// meta is what an image holds of a session beside memory and files: what the
// shim had of it.
type meta struct {
	Generation     uint64         `json:"generation"`
	Leader         int            `json:"leader"` // pid within the session
	Status         string         `json:"status"` // criu's name of the status pipe
	TCPEstablished bool           `json:"tcp_established,omitempty"`
	EmptyNetwork   bool           `json:"empty_network,omitempty"`
	PrivateNetwork bool           `json:"private_network,omitempty"`
	Commands       []savedCommand `json:"commands"` // the leader first
	Ended          []savedEnd     `json:"ended,omitempty"`
	Rehearsed      string         `json:"rehearsed,omitempty"` // digest of what it had at its last rehearsal
	Filter         string         `json:"filter,omitempty"`    // digest of the filter of system calls that it had from the shim
	Typists        []typist       `json:"typists,omitempty"`
	Forgot         bool           `json:"typists_forgotten,omitempty"` // there were more
	CopiedUp       []numbered     `json:"copied_up,omitempty"`
}

// savedCommand is one command, with the names that criu has for its descriptors.
type savedCommand struct {
	PID      int            `json:"pid"`
	Output   string         `json:"output"`            // file of its backlog
	Input    string         `json:"input,omitempty"`   // file of what was typed and not yet read
	Ends     []int          `json:"ends,omitempty"`    // positions in it at which a line ends without a newline
	Late     string         `json:"late,omitempty"`    // file of what was typed after it and waits for room
	Stopped  stop           `json:"stopped,omitempty"` // what has stopped its terminal's output
	Pipes    []string       `json:"pipes,omitempty"`   // output, error
	Stdin    string         `json:"stdin,omitempty"`   // its standard input, while that is open
	Terminal *savedTerminal `json:"terminal,omitempty"`
	Name     string         `json:"name,omitempty"`  // that its client gave it
	Taken    int64          `json:"taken,omitempty"` // bytes of that client's input, since it was started
	Shown    *savedShown    `json:"shown,omitempty"` // what its terminal shows
}

type savedTerminal struct {
	Index       int    `json:"index"`
	Key         string `json:"key"`
	Controlling string `json:"controlling,omitempty"` // criu's name of /dev/tty, if that is this terminal
}

// save writes the command's part of the image to dir.
func (c *command) save(dir string, n int) (savedCommand, error) {
	saved := savedCommand{PID: c.pid, Output: fmt.Sprintf("output.%d", n), Name: c.name, Taken: c.inputTaken()}
	if err := os.WriteFile(filepath.Join(dir, saved.Output), c.log.Encode(), 0o600); err != nil {
		return saved, fmt.Errorf("save output: %w", err)
	}
	if err := saved.keep(dir, n, c.taken); err != nil {
		return saved, err
	}
	if c.tty != nil {
		key, err := c.tty.key()
		saved.Terminal = &savedTerminal{Index: c.tty.index, Key: key}
		return saved, errors.Join(err, saved.keepShown(dir, n, c.shown))
	}
	for _, p := range c.outs {
		key, err := pipeKey(p.file)
		if err != nil {
			return saved, err
		}
		saved.Pipes = append(saved.Pipes, key)
	}
	if in := c.input(); in != nil {
		key, err := pipeKey(in)
		saved.Stdin = key
		return saved, err
	}
	return saved, nil
}

func (saved *savedCommand) keep(dir string, n int, in typed) error {
	saved.Ends, saved.Stopped = in.ends, in.stopped
	for _, part := range []struct {
		into *string
		name string
		b    []byte
	}{{&saved.Input, "input", in.seen}, {&saved.Late, "late", in.late}} {
		if len(part.b) == 0 {
			continue
		}
		*part.into = fmt.Sprintf("%s.%d", part.name, n)
		if err := os.WriteFile(filepath.Join(dir, *part.into), part.b, 0o600); err != nil {
			return fmt.Errorf("save input: %w", err)
		}
	}
	return nil
}

func (saved savedCommand) kept(dir string) (in typed, err error) {
	for name, into := range map[string]*[]byte{saved.Input: &in.seen, saved.Late: &in.late} {
		if name == "" {
			continue
		}
		if *into, err = os.ReadFile(filepath.Join(dir, filepath.Base(name))); err != nil {
			return in, fmt.Errorf("read saved input: %w", err)
		}
	}
	for i, end := range saved.Ends {
		if end < 0 || end > len(in.seen) || i > 0 && end < saved.Ends[i-1] {
			return in, errors.New("read saved input: its lines end where it doesn't")
		}
	}
	in.ends, in.stopped = saved.Ends, saved.Stopped
	return in, nil
}

// load makes the command that was saved, without its descriptors.
func (saved savedCommand) load(dir string, exec bool) (*command, error) {
	b, err := os.ReadFile(filepath.Join(dir, filepath.Base(saved.Output)))
	if err != nil {
		return nil, fmt.Errorf("read saved output: %w", err)
	}
	log, err := backlog.Decode(b, attach.OutputKept)
	if err != nil {
		return nil, err
	}
	c := newCommand(log, exec)
	c.pid, c.name, c.got = saved.PID, saved.Name, saved.Taken
	if c.taken, err = saved.kept(dir); err != nil {
		return nil, err
	}
	if saved.Terminal != nil && !exec {
		c.shown, err = saved.keptShown(dir, c)
	}
	return c, err
}

func readMeta(dir string) (meta, error) {
	var m meta
	b, err := os.ReadFile(filepath.Join(dir, metaName))
	if err != nil {
		return m, fmt.Errorf("read the image's session: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("read the image's session: %w", err)
	}
	if len(m.Commands) == 0 {
		return m, errors.New("read the image's session: it has no command")
	}
	return m, nil
}
