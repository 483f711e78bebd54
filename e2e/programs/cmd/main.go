// Command cmd records what real programs print to a terminal, for the tests of package events/screen: it starts each
// program of the list (list.go) in a terminal of a fixed size, types what the list says, each time after the program
// has printed nothing for a while, and answers what the program asks of its terminal. So no person is needed.
//
//	apt-get install -y --no-install-recommends $(go run ./e2e/programs/cmd -packages)
//	go run ./e2e/programs/cmd [-out events/screen/testdata/programs] [NAME...]
//
// It needs root: a program has namespaces of its own for processes, mounts and the host's name, so that a recording
// has nothing of the machine in it but its load. No test runs it, and a recording needn't be made again: make one
// to add a program.
//
// A recording is compressed by gzip. In it are "size ROWS COLS" and "output N", each in a line of its own, the latter
// followed by N bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/screen"
)

const (
	quiet = 400 * time.Millisecond // with no output before the next step
	slow  = 10 * time.Second       // for a program that prints all the time
)

func main() {
	out := flag.String("out", "events/screen/testdata/programs", "directory of the recordings")
	list := flag.Bool("packages", false, "print the Debian packages that have the programs")
	flag.Parse()
	if *list {
		fmt.Println(packages)
		return
	}
	for _, p := range programs {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), p.name) {
			continue
		}
		if err := save(filepath.Join(*out, p.name+".gz"), p); err != nil {
			fmt.Fprintf(os.Stderr, "record %s: %v\n", p.name, err)
			os.Exit(1)
		}
	}
}

func save(path string, p program) error {
	r := &recorder{most: p.most}
	if r.most == 0 {
		r.most = 48 << 10
	}
	if err := r.record(p); err != nil {
		return err
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(r.frames.Bytes()); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes of output, %d compressed\n", p.name, r.bytes, b.Len())
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// recorder is a program's terminal.
type recorder struct {
	most   int // bytes of output that are kept
	bytes  int
	frames bytes.Buffer
	master *os.File
	screen *screen.Screen
}

func (r *recorder) record(p program) error {
	master, slave, err := openTerminal()
	if err != nil {
		return err
	}
	defer master.Close()
	r.master, r.screen = master, screen.New(24, 80)
	if err := r.size(24, 80); err != nil {
		return err
	}
	cmd := exec.Command("/bin/bash", "-c", prepare+p.command)
	cmd.Env = append([]string{
		"TERM=xterm-256color", "LANG=C.UTF-8", "TZ=UTC", "HOME=/tmp", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/games",
	}, p.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Setctty: true, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS, Unshareflags: syscall.CLONE_NEWNS,
	}
	err = cmd.Start()
	slave.Close()
	if err != nil {
		return err
	}
	output := make(chan []byte)
	go read(master, output)
	r.settle(output)
	for _, s := range p.steps {
		if err = r.step(s); err != nil {
			break
		}
		r.settle(output)
	}
	cmd.Process.Kill() // and all others of its namespace
	for range output {
	}
	cmd.Wait()
	return err
}

// step types keys, or gives the terminal another size.
func (r *recorder) step(s string) error {
	var rows, cols int
	if n, _ := fmt.Sscanf(s, "@%dx%d", &rows, &cols); n == 2 {
		r.screen.Resize(rows, cols)
		return r.size(rows, cols)
	}
	_, err := r.master.WriteString(s)
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("the program ended before %q", s)
	}
	return err
}

func (r *recorder) size(rows, cols int) error {
	fmt.Fprintf(&r.frames, "size %d %d\n", rows, cols)
	c, err := r.master.SyscallConn()
	if err != nil {
		return err
	}
	if fails := c.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
	}); fails != nil {
		return fails
	}
	return err
}

// settle takes output until there is none for a while.
func (r *recorder) settle(output <-chan []byte) {
	var all []byte
	for end := time.After(slow); ; {
		var piece []byte
		var calm <-chan time.Time
		if r.bytes > 0 || len(all) > 0 { // it has started
			calm = time.After(quiet)
		}
		select {
		case piece = <-output:
		case <-calm:
		case <-end:
		}
		if piece == nil {
			break
		}
		if answers := r.screen.Write(piece); len(answers) > 0 {
			r.master.Write(answers) // one that has ended needs none
		}
		all = append(all, piece...)
	}
	for len(all) > 0 && r.bytes < r.most {
		n := min(len(all), 2<<10, r.most-r.bytes)
		fmt.Fprintf(&r.frames, "output %d\n%s", n, all[:n])
		r.bytes += n
		all = all[n:]
	}
}

func read(from io.Reader, output chan<- []byte) {
	defer close(output)
	for {
		b := make([]byte, 4096)
		n, err := from.Read(b)
		if n > 0 {
			output <- b[:n]
		}
		if err != nil {
			return
		}
	}
}

func openTerminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	c, err := master.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	var name string
	fails := c.Control(func(fd uintptr) {
		var n int
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		}
		name = fmt.Sprintf("/dev/pts/%d", n)
	})
	if err = errors.Join(err, fails); err == nil {
		slave, err = os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
	}
	return master, slave, err
}

// packages have the programs.
var packages = strings.Join([]string{
	"bsdextrautils", "bsdgames", "cmatrix", "dialog", "emacs-nox", "fish", "fzf", "git", "htop", "joe", "less", "man-db", "mc", "moon-buggy", "nano", "ncdu", "ninvaders", "nsnake",
	"procps", "python3", "screen", "sl", "tig", "tmux", "vim", "vttest", "w3m", "whiptail", "zsh",
}, " ")
