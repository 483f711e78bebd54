package upgrade

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"sync"
	"syscall"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/network/networktest"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// part is one process of a fleet, which is replaced while the others run.
type part struct {
	fleet   *fleet
	name    string
	program string
	verb    string
	args    []string
	host    schemas.HostID       // what it runs sessions as, if it does
	apart   *networktest.Outside // the network that it is in, if it has one
	ready   *regexp.Regexp       // what it prints when it serves

	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
	log  said
}

// said takes what a part prints while it is read.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs the part and waits until it serves.
func (p *part) start() {
	p.fleet.t.Helper()
	from := len(p.log.String())
	p.cmd = exec.Command(p.program, append([]string{p.verb}, p.args...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	begin := threadtest.Start
	if p.apart != nil {
		begin = p.apart.Start
	}
	if err := begin(p.cmd); err != nil {
		p.fleet.t.Fatal(err)
	}
	cmd, done := p.cmd, make(chan struct{})
	p.done = done
	go func() {
		_ = cmd.Wait() // its end is what is waited for
		close(done)
	}()
	until(p.fleet.t, "part "+p.name+" is ready", func() error {
		if text := p.log.String()[from:]; !p.ready.MatchString(text) {
			return fmt.Errorf("it printed:\n%s", text)
		}
		return nil
	})
}

func (p *part) alive() bool {
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop ends the part as an operator does.
func (p *part) stop() {
	p.fleet.t.Helper()
	if !p.alive() {
		p.fleet.t.Fatalf("part %s has ended by itself:\n%s", p.name, p.log.String())
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.fleet.t.Fatal(err)
	}
	until(p.fleet.t, "part "+p.name+" ends", func() error {
		if p.alive() {
			return fmt.Errorf("it printed:\n%s", p.log.String())
		}
		return nil
	})
}
