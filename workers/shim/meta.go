package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/diapause/diapause/workers/shim/backlog"
	"golang.org/x/sys/unix"
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
	Commands       []savedCommand `json:"commands"` // the leader first
}

// savedCommand is one command, with the names that criu has for its descriptors.
type savedCommand struct {
	PID      int            `json:"pid"`
	Output   string         `json:"output"`          // file of its backlog
	Input    string         `json:"input,omitempty"` // file of what was typed and not yet read
	Pipes    []string       `json:"pipes,omitempty"` // output, error
	Stdin    string         `json:"stdin,omitempty"` // its standard input, while that is open
	Terminal *savedTerminal `json:"terminal,omitempty"`
}

type savedTerminal struct {
	Index       int    `json:"index"`
	Key         string `json:"key"`
	Controlling string `json:"controlling,omitempty"` // criu's name of /dev/tty, if that is this terminal
}

// save writes the command's part of the image to dir.
func (c *command) save(dir string, n int) (savedCommand, error) {
	saved := savedCommand{PID: c.pid, Output: fmt.Sprintf("output.%d", n)}
	if err := os.WriteFile(filepath.Join(dir, saved.Output), c.log.Encode(), 0o600); err != nil {
		return saved, fmt.Errorf("save output: %w", err)
	}
	if len(c.taken) > 0 {
		saved.Input = fmt.Sprintf("input.%d", n)
		if err := os.WriteFile(filepath.Join(dir, saved.Input), c.taken, 0o600); err != nil {
			return saved, fmt.Errorf("save input: %w", err)
		}
	}
	if c.tty != nil {
		key, err := c.tty.key()
		saved.Terminal = &savedTerminal{Index: c.tty.index, Key: key}
		return saved, err
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

// load makes the command that was saved, without its descriptors.
func (saved savedCommand) load(dir string, exec bool) (*command, error) {
	b, err := os.ReadFile(filepath.Join(dir, filepath.Base(saved.Output)))
	if err != nil {
		return nil, fmt.Errorf("read saved output: %w", err)
	}
	log, err := backlog.Decode(b, outputKept)
	if err != nil {
		return nil, err
	}
	c := newCommand(log, exec)
	c.pid = saved.PID
	if saved.Input != "" {
		if c.taken, err = os.ReadFile(filepath.Join(dir, filepath.Base(saved.Input))); err != nil {
			return nil, fmt.Errorf("read saved input: %w", err)
		}
	}
	return c, nil
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

// takeInput takes back what was typed and not yet read. What an earlier capture
// took and nobody put back comes first.
func (c *command) takeInput() error {
	var more []byte
	var err error
	if c.tty != nil {
		more, err = c.tty.takeInput()
	} else if in := c.input(); in != nil {
		more, err = drainPipe(in)
	}
	c.taken = append(c.taken, more...)
	return err
}

// putInput gives it back.
func (c *command) putInput() error {
	b := c.taken
	c.taken = nil
	if len(b) == 0 {
		return nil
	}
	if c.tty != nil {
		return c.tty.putInput(b)
	}
	in := c.input()
	if in == nil {
		return nil
	}
	raw, err := in.SyscallConn()
	if err != nil {
		return err
	}
	// It was in this pipe, so it fits.
	ctlErr := raw.Control(func(fd uintptr) { _, err = unix.Write(int(fd), b) })
	return errors.Join(err, ctlErr)
}
