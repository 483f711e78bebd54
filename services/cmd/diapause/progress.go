package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/term"

	"github.com/diapause/diapause/schemas"
)

// When something counts as taking long, and how often it is shown how long it has taken.
const (
	progressAfter = time.Second
	progressEvery = 250 * time.Millisecond
)

// showProgress shows on a terminal what a verb is doing and for how long, once that takes
// longer than a second; nothing elsewhere.
func showProgress(nc *nats.Conn, verb string, req schemas.Request) (stop func()) {
	if verb == "list" || verb == "show" || !term.IsTerminal(int(os.Stderr.Fd())) {
		return func() {}
	}
	p := newProgress(os.Stderr, verbWords(verb), req.Name, time.Now())
	var subs []*nats.Subscription
	for _, name := range []string{req.Name, req.To} {
		n, err := schemas.ParseName(name)
		if err != nil {
			continue
		}
		sub, err := nc.Subscribe(schemas.SubjectProgress+"."+n.Key(), func(msg *nats.Msg) {
			var step schemas.Progress
			if json.Unmarshal(msg.Data, &step) == nil {
				p.step(n, step)
			}
		})
		if err == nil {
			subs = append(subs, sub)
		}
	}
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				p.show(now)
			case <-stopped:
				return
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
		for _, sub := range subs {
			_ = sub.Unsubscribe() // the connection closes next
		}
		p.clear()
	}
}

// verbWords are a verb's words at the command line.
func verbWords(verb string) string { return strings.ReplaceAll(verb, "_", " ") }

// progress is the line of a terminal that tells how far something is.
type progress struct {
	out   io.Writer
	began time.Time

	mu    sync.Mutex
	what  string
	stage string
	shown bool
}

func newProgress(out io.Writer, verb, name string, began time.Time) *progress {
	return &progress{out: out, began: began, what: strings.TrimSpace(verb + " " + name)}
}

// step takes in how far an operation is.
func (p *progress) step(n schemas.Name, s schemas.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.stage = s.Kind+" "+n.String(), stepOf(s)
}

// show writes the line if it takes long.
func (p *progress) show(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := now.Sub(p.began)
	if took < progressAfter {
		return
	}
	line := p.what + ": "
	if p.stage != "" {
		line += p.stage + ", "
	}
	fmt.Fprintf(p.out, "\r\033[K%s%s", clean(line), took.Truncate(time.Second))
	p.shown = true
}

func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\033[K")
	}
}

// stepOf is how far an operation is, for a person.
func stepOf(p schemas.Progress) string {
	switch {
	case p.Of > 0:
		return fmt.Sprintf("%s %s of %s", p.Stage, size(min(p.Bytes, p.Of)), size(p.Of))
	case p.Bytes > 0:
		return p.Stage + " " + size(p.Bytes)
	}
	return p.Stage
}
