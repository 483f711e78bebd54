package script

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/workers/thread/threadtest"
	"github.com/rogpeppe/go-internal/testscript"
)

// cmdTerminal runs a command in a terminal of its own and follows a dialogue,
// line by line: "send TEXT" types (a Go string without its quotes: \n, \x1d),
// "expect PATTERN" waits for it in what was printed since the last match, "end"
// waits for the command to end well.
func cmdTerminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: terminal FILE CMD [ARG…]")
	}
	master, slave, err := local.OpenTerminal(80, 24)
	ts.Check(err)
	defer master.Close()
	cmd := exec.Command(args[1], args[2:]...)
	if args[1] == "diapause" {
		cmd.Path, cmd.Err = built.program, nil
	}
	cmd.Env = stackOf(ts).Env
	cmd.Dir = ts.MkAbs(".")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	ts.Check(threadtest.Start(cmd))
	slave.Close()
	d := &dialogue{master: master, ended: make(chan error, 1)}
	go d.read()
	go func() { d.ended <- cmd.Wait() }()
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if err := d.follow(strings.TrimSuffix(line, "\n")); err != nil {
			_ = cmd.Process.Kill() // it may have ended
			ts.Fatalf("%s: %v; the terminal showed:\n%q", strings.TrimSpace(line), err, d.text())
		}
	}
	_ = cmd.Process.Kill()
}

type dialogue struct {
	master *os.File
	ended  chan error

	mu   sync.Mutex
	seen []byte
	at   int // where the next match is looked for
}

func (d *dialogue) read() {
	buf := make([]byte, 4096)
	for {
		n, err := d.master.Read(buf)
		d.mu.Lock()
		d.seen = append(d.seen, buf[:n]...)
		d.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (d *dialogue) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.seen)
}

func (d *dialogue) follow(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "":
		return nil
	case "send":
		text, err := strconv.Unquote(`"` + rest + `"`)
		if err != nil {
			return err
		}
		_, err = d.master.WriteString(text)
		return err
	case "expect":
		return d.expect(rest)
	case "end":
		select {
		case err := <-d.ended:
			return err
		case <-time.After(deadline):
			return fmt.Errorf("it doesn't end")
		}
	}
	return fmt.Errorf("no such step")
}

func (d *dialogue) expect(pattern string) error {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		d.mu.Lock()
		m := re.FindIndex(d.seen[d.at:])
		if m != nil {
			d.at += m[1]
		}
		d.mu.Unlock()
		if m != nil {
			return nil
		}
	}
	return fmt.Errorf("it doesn't come")
}
