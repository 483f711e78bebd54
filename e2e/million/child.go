package million

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// roleVariable has this program be one of its own children.
const roleVariable = "DIAPAUSE_MILLION_ROLE"

// roles are what a child can be. Each reads its orders, says what it found as lines
// of JSON, and ends when stop is closed, if not before.
var roles = map[string]func(orders, func(any), <-chan struct{}) error{
	"server": serve, "bare": bare, "scheduler": decide,
}

// orders are what a child is told.
type orders struct {
	URL string `json:"url,omitempty"`
	// Of a server:
	Name   string   `json:"name,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	Sync   bool     `json:"sync,omitempty"`
	Port   int      `json:"port,omitempty"` // among servers
	Routes []string `json:"routes,omitempty"`
	GC     int      `json:"gc,omitempty"` // percent, as GOGC; then it says in the end what it has in use
	Trims  bool     `json:"trims,omitempty"`
	// Of a scheduler: how long it is left alone before its memory is looked at, since it
	// goes through all sessions when it is ready.
	Settle time.Duration `json:"settle,omitempty"`
	// Of a bare consumer:
	Stream string `json:"stream,omitempty"`
}

// Child runs the part that this process was started for; ok is false if it is no child.
func Child() (code int, ok bool) {
	role := roles[os.Getenv(roleVariable)]
	if role == nil {
		return 0, false
	}
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	var o orders
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in) // until who started it ends, or has enough
		close(stop)
	}()
	if err == nil {
		err = role(o, say, stop)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Getenv(roleVariable)+":", err)
		return 1, true
	}
	return 0, true
}

func say(v any) {
	if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
		fmt.Fprintln(os.Stderr, "say what was found:", err)
	}
}

// child is a process of a role.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start begins a child; cores bounds what it computes on, 0 for all.
func start(ctx context.Context, role string, cores int, o orders) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self)}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	if cores > 0 {
		c.cmd.Env = append(c.cmd.Env, "GOMAXPROCS="+strconv.Itoa(cores))
	}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	return c, json.NewEncoder(c.in).Encode(o)
}

// hear reads the next thing that the child says.
func (c *child) hear(v any) error {
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return errors.Join(fmt.Errorf("it said nothing: %w", err), c.end())
	}
	return json.Unmarshal(line, v)
}

// end lets the child end, and waits for that.
func (c *child) end() error {
	_ = c.in.Close() // closed already if it was told before
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(c.cmd.Args, " "), err)
	}
	return nil
}

// resident is the memory of a process, in bytes.
func resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of process %d: %q", pid, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
