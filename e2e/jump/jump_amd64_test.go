package jump

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// program answers each line with the wall clock and the time since it began.
const program = `package main

import ("bufio"; "fmt"; "os"; "time")

func main() {
	began := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(time.Now().Unix(), int64(time.Since(began)))
	}
}
`

// The wall clock of a running process jumps both ways, and no other of its clocks does.
func TestJump(t *testing.T) {
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
	answers := bufio.NewScanner(out)
	ask := func() (ahead, since time.Duration) {
		t.Helper()
		if _, err := in.Write([]byte("\n")); err != nil || !answers.Scan() {
			t.Fatalf("it doesn't answer: %v, %v", err, answers.Err())
		}
		words := strings.Fields(answers.Text())
		wall, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		mono, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(time.Unix(wall, 0)).Round(time.Minute), time.Duration(mono).Round(time.Minute)
	}
	ask()
	for _, want := range []time.Duration{0, time.Hour, -time.Hour, 100 * 24 * time.Hour, 0} {
		c, err := Of(bin, cmd.Process.Pid) // a second hold of it is as good
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Set(want); err != nil {
			t.Fatal(err)
		}
		if ahead, since := ask(); ahead != want || since != 0 {
			t.Errorf("its clock is ahead by %s, and it has run for %s; want %s, and no time", ahead, since, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
