package canary

import (
	"bufio"
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Life is how long the program lives by itself, so that one that was forgotten
// ends. Time in which it is suspended doesn't count.
const Life = 2 * time.Minute

// The words between Run and the program, on its terminal.
const (
	wordReady = "canary-ready " // the program: an Answer follows
	wordTell  = "canary-tell "  // Run: a nonce follows
	wordTold  = "canary-told "  // the program: the nonce and an Answer follow
	wordChild = "child"         // the argument of the program's child
)

// memorySize is how much memory with a known content the program holds, in bytes.
const memorySize = 4 << 20

// Answer is what the program says of itself.
type Answer struct {
	Token  string `json:"token"`  // random, made at its start
	Intact bool   `json:"intact"` // its memory has the content that it had
	Ticks  int64  `json:"ticks"`  // a counter that runs by itself
	Asked  int    `json:"asked"`  // how often it was asked, this time included
	Listen string `json:"listen"` // the address where it takes connections
	Child  int    `json:"child"`  // pid of its child, within the session
	Heard  int    `json:"heard"`  // how often it asked its child, by the child's own count
}

// Program is the program of the canary: a binary that uses Run calls it with the
// arguments that follow the words of Options.Self, and exits with its result.
func Program(args []string) int {
	time.AfterFunc(Life, func() { os.Exit(3) })
	var err error
	if len(args) == 1 && args[0] == wordChild {
		err = serveParent(os.Stdin, os.Stdout)
	} else {
		err = live(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "canary:", err)
		return 1
	}
	return 0
}

// serveParent answers each line with how many there have been.
func serveParent(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		if _, err := fmt.Fprintf(out, "%d\n", n); err != nil {
			return err
		}
	}
	return lines.Err()
}

// probe is the program's state.
type probe struct {
	seed   [32]byte
	token  string
	memory []byte
	ticks  atomic.Int64

	mu    sync.Mutex // held while one answer is made and given
	asked int
	place string // where it listens
	child child
}

func live(args []string) error {
	b := &probe{token: crand.Text(), memory: make([]byte, memorySize)}
	if _, err := crand.Read(b.seed[:]); err != nil {
		return err
	}
	if _, err := b.content().Read(b.memory); err != nil {
		return err
	}
	var err error
	if b.child, err = startChild(args); err != nil {
		return err
	}
	// A kernel's MPTCP, which Go would ask for, can't be captured.
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	// An address of its own on the loopback interface: no other program takes the port while
	// the canary isn't there.
	address := fmt.Sprintf("127.%d.%d.%d:0", 1+b.seed[0]%254, b.seed[1], 1+b.seed[2]%254)
	l, err := config.Listen(context.Background(), "tcp4", address)
	if err != nil {
		return err
	}
	b.place = l.Addr().String()
	go b.tick()
	go b.serve(l)
	return b.talk(os.Stdin, os.Stdout)
}

// content gives the bytes that the memory must hold.
func (b *probe) content() *rand.ChaCha8 { return rand.NewChaCha8(b.seed) }

func (b *probe) tick() {
	for range time.Tick(5 * time.Millisecond) {
		b.ticks.Add(1)
	}
}

// talk answers on the terminal until it is closed.
func (b *probe) talk(in io.Reader, out io.Writer) error {
	if err := b.say(out, wordReady); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if nonce, ok := strings.CutPrefix(lines.Text(), wordTell); ok {
			if err := b.say(out, wordTold+nonce+" "); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

func (b *probe) say(out io.Writer, words string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answer(out, words)
}

// serve answers one connection after the other.
func (b *probe) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // Run notices that there is no answer
		}
		b.attend(c)
	}
}

// attend returns when the caller has hung up, so that the caller's end is the
// one that waits for late segments, and not the port.
func (b *probe) attend(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(talkWait)); err != nil {
		return
	}
	if b.answer(c, "") == nil {
		_, _ = io.Copy(io.Discard, c) // an error ends it too
	}
}

func (b *probe) answer(out io.Writer, words string) error {
	heard, err := b.child.ask()
	if err != nil {
		return fmt.Errorf("ask the child: %w", err)
	}
	now := make([]byte, memorySize)
	if _, err := b.content().Read(now); err != nil {
		return err
	}
	b.asked++
	text, err := json.Marshal(Answer{
		Token: b.token, Intact: bytes.Equal(b.memory, now), Ticks: b.ticks.Load(), Asked: b.asked,
		Listen: b.place, Child: b.child.pid, Heard: heard,
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s%s\n", words, text)
	return err
}

// child is the program's child process and the pipes to it.
type child struct {
	pid int
	to  *os.File
	out *bufio.Reader
}

// startChild starts this program once more. It does without os/exec, whose
// descriptor for the child not every criu captures.
func startChild(args []string) (c child, err error) {
	in, to, err := os.Pipe()
	if err != nil {
		return c, err
	}
	defer in.Close()
	from, out, err := os.Pipe()
	if err != nil {
		return c, err
	}
	defer out.Close()
	words := os.Args[:len(os.Args)-len(args)]
	c.pid, err = syscall.ForkExec("/proc/self/exe", append(append([]string(nil), words...), wordChild),
		&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{in.Fd(), out.Fd(), 2}})
	if err != nil {
		return c, fmt.Errorf("start the child: %w", err)
	}
	c.to, c.out = to, bufio.NewReader(from)
	return c, nil
}

func (c child) ask() (heard int, err error) {
	if _, err := c.to.WriteString("how often\n"); err != nil {
		return 0, err
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Sscan(line, &heard); err != nil {
		return 0, errors.New("the child doesn't answer with a number")
	}
	return heard, nil
}
