package attack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// What a session with limits has: the test starts it so.
const (
	LimitPids   = 64
	LimitMemory = 128 << 20
	LimitDisk   = 64 << 20
)

// Limited are attempts to take more than a session may have.
func Limited() []Attempt {
	return []Attempt{
		{What: "start ever more processes", Want: []string{"EAGAIN"}, Try: bomb},
		{What: "take more memory than it has", Want: []string{"signal: killed"}, Try: gorge},
		{What: "fill the disk", Want: []string{"ENOSPC"}, Try: fill},
		{What: "reserve the disk", Want: []string{"ENOSPC"}, Try: reserve},
		{What: "give a program more arguments than the kernel takes", Want: []string{"E2BIG"}, Try: func(Facts) error {
			return exec.Command("/bin/true", strings.Repeat("x", 8<<20)).Run()
		}},
	}
}

func bomb(Facts) error {
	var all []*exec.Cmd
	defer func() {
		for _, c := range all {
			_ = c.Process.Kill() // it may have ended
			_ = c.Wait()
		}
	}()
	for range 2 * LimitPids {
		c := exec.Command("/bin/sleep", "1000")
		if err := c.Start(); err != nil {
			return err
		}
		all = append(all, c)
	}
	return nil
}

func gorge(Facts) error {
	b, err := unix.Mmap(-1, 0, 2*LimitMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return nil
}

func fill(f Facts) error {
	file, err := os.Create(filepath.Join(f.Bait, "filled"))
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	block := make([]byte, 1<<20)
	for range 2 * LimitDisk / len(block) {
		if _, err := file.Write(block); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return file.Close()
}

func reserve(f Facts) error {
	file, err := os.Create(filepath.Join(f.Bait, "reserved"))
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	return errors.Join(unix.Fallocate(int(file.Fd()), 0, 0, 2*LimitDisk), file.Close())
}
