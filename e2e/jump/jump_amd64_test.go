package jump

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// program answers each line with the wall clock, the time since it began, and how long it
// took to sync a file.
const program = `package main

import ("bufio"; "fmt"; "os"; "time")

func main() {
	began := time.Now()
	f, err := os.CreateTemp("", "synced-")
	if err != nil {
		panic(err)
	}
	os.Remove(f.Name())
	go func() { // someone always makes system calls
		for {
			f.WriteAt([]byte("x"), 0)
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		before := time.Now()
		if err := f.Sync(); err != nil {
			panic(err)
		}
		fmt.Println(before.Unix(), int64(before.Sub(began)), int64(time.Since(before)))
	}
}
`

// subject is a process of that program.
type subject struct {
	t       *testing.T
	bin     string
	pid     int
	in      io.Writer
	answers *bufio.Scanner
}

func start(t *testing.T) subject {
	t.Helper()
	src, bin := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "clock")
	if err := os.WriteFile(src, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", bin, src)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(bin)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	return subject{t, bin, cmd.Process.Pid, in, bufio.NewScanner(out)}
}

// ask gives how far its clock is ahead, for how long it has run, and how long a sync took.
func (s subject) ask() (ahead, since, sync time.Duration) {
	s.t.Helper()
	if _, err := s.in.Write([]byte("\n")); err != nil || !s.answers.Scan() {
		s.t.Fatalf("it doesn't answer: %v, %v", err, s.answers.Err())
	}
	var n [3]int64
	for i, word := range strings.Fields(s.answers.Text()) {
		var err error
		if n[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			s.t.Fatal(err)
		}
	}
	return time.Until(time.Unix(n[0], 0)).Round(time.Minute), time.Duration(n[1]).Round(time.Minute), time.Duration(n[2])
}

// The wall clock of a running process jumps both ways, and no other of its clocks does.
func TestJump(t *testing.T) {
	s := start(t)
	s.ask()
	for _, want := range []time.Duration{0, time.Hour, -time.Hour, 100 * 24 * time.Hour, 0} {
		c, err := Of(s.bin, s.pid) // a second hold of it is as good
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Set(want); err != nil {
			t.Fatal(err)
		}
		if ahead, since, _ := s.ask(); ahead != want || since != 0 {
			t.Errorf("its clock is ahead by %s, and it has run for %s; want %s, and no time", ahead, since, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a process syncs takes longer when it is told to.
func TestDisk(t *testing.T) {
	s := start(t)
	_, _, before := s.ask()
	const longer = 300 * time.Millisecond
	for _, want := range []time.Duration{0, longer, 0, longer} {
		d, err := DiskOf(s.bin, s.pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Set(want); err != nil {
			t.Fatal(err)
		}
		if _, _, took := s.ask(); took < want {
			t.Errorf("a sync took %s before, and takes %s; want at least %s", before, took, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
