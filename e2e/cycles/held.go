package cycles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/diapause/diapause/e2e/compat/local"
)

// held is what the machine holds for one running session and its daemon.
type held struct {
	local.Used
	Mounts   int   // of the daemon and of the shim, in the data directory
	Loops    int   // loop devices whose file is in the data directory
	Cgroups  int   // directories of the daemon's
	Children int   // processes of the daemon and the shim, the dead included
	Objects  int   // files in the store
	Store    int64 // bytes in it
	Other    int   // files in the data directory beside the store and the log
}

func look(ctx context.Context, d *local.Daemon, s *local.Session) (held, error) {
	used, err := s.Used(ctx)
	if err != nil {
		return held{}, err
	}
	shim, err := s.Shim(ctx)
	if err != nil {
		return held{}, err
	}
	h := held{Used: used}
	var errs [4]error
	h.Mounts, errs[0] = mounts(d.Data(), d.Pid(), shim)
	h.Loops, errs[1] = loops(d.Data())
	h.Cgroups, errs[2] = cgroups(d.Host())
	h.Children, errs[3] = children(d.Pid(), shim)
	return h, errors.Join(append(errs[:], h.files(d.Data()))...)
}

// mounts counts those that have to do with the data directory: others' come and go.
func mounts(data string, pids ...int) (n int, err error) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		if err != nil {
			return 0, fmt.Errorf("count mounts: %w", err)
		}
		for line := range bytes.Lines(b) {
			if bytes.Contains(line, []byte(data)) {
				n++
			}
		}
	}
	return n, nil
}

func loops(data string) (n int, err error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err == nil && strings.HasPrefix(string(b), data) { // others' come and go
			n++
		}
	}
	return n, err
}

// cgroups counts in every hierarchy.
func cgroups(host string) (n int, err error) {
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another's, gone meanwhile
		}
		if err == nil && e.IsDir() && strings.Contains(path+"/", "/"+host+"/") {
			n++
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("count cgroups: %w", err)
	}
	return n, nil
}

func children(pids ...int) (n int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		for _, pid := range pids {
			if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
				n++
			}
		}
	}
	return n, err
}

func (h *held) files(data string) error {
	err := filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was temporary
		}
		if err != nil {
			return err
		}
		inside, _ := filepath.Rel(data, path)
		switch top, _, _ := strings.Cut(inside, "/"); {
		case e.IsDir() && (top == "nats" || strings.HasPrefix(inside, "sessions/")):
			// The log of a session grows by its nature; its layer is its own.
			return fs.SkipDir
		case e.IsDir():
			return nil
		case top == "objects":
			info, err := e.Info()
			if err == nil {
				h.Objects++
				h.Store += info.Size()
			}
			return nil
		}
		h.Other++
		return nil
	})
	if err != nil {
		return fmt.Errorf("count files: %w", err)
	}
	return nil
}
