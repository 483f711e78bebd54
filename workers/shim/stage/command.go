package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/driver"
)

// Command is a program to run inside a session.
type Command struct {
	Argv     []string `json:"argv"`
	Env      []string `json:"env,omitempty"` // complete
	Dir      string   `json:"dir,omitempty"`
	User     string   `json:"user,omitempty"`
	Terminal string   `json:"terminal,omitempty"` // "/dev/pts/0", or none
	Stdin    bool     `json:"stdin,omitempty"`    // descriptor 5 is standard input; output and error follow
}

func refuse(format string, a ...any) error {
	return &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf(format, a...)}
}

// cantRun refuses a command, with the status that a shell would give it.
func cantRun(status int, format string, a ...any) error {
	return &driver.Error{Kind: driver.Refused, Status: status, Text: fmt.Sprintf(format, a...)}
}

// start executes the command in a session of its own (as setsid has it) and
// returns its pid. If traced, it stops before its first instruction and is the
// calling thread's tracee.
func (c Command) start(traced bool) (int, error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return 0, refuse("there is no command to run")
	}
	who, err := lookUser(c.User)
	if err != nil {
		return 0, err
	}
	dir := c.Dir
	if dir == "" {
		dir = "/"
	}
	if err := checkDir(dir); err != nil {
		return 0, err
	}
	path, err := c.resolve(dir)
	if err != nil {
		return 0, err
	}
	files, err := c.stdio(who)
	if err != nil {
		return 0, err
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: c.environment(who), Files: files, Sys: &syscall.SysProcAttr{
		Setsid: true, Setctty: c.Terminal != "", Ptrace: traced,
		Credential: &syscall.Credential{Uid: who.uid, Gid: who.gid, Groups: who.groups},
	}}
	unix.Umask(0o022)
	pid, err := syscall.ForkExec(path, c.Argv, attr)
	if err != nil {
		return 0, explain(c.Argv[0], path, err)
	}
	if traced {
		return pid, awaitStop(pid)
	}
	return pid, nil
}

// awaitStop waits until the command has been executed and stands before its
// first instruction.
func awaitStop(pid int) error {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, syscall.WALL, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the command: %w", err)
		}
		if ws.Stopped() && ws.StopSignal() == syscall.SIGTRAP {
			return nil
		}
		return fmt.Errorf("the command ended before it ran (wait status %#x)", uint32(ws))
	}
}

// environment adds what a program may count on: PATH and HOME, and that Go
// programs listen with plain TCP, since MPTCP sockets can't be captured.
func (c Command) environment(who account) []string {
	env := append([]string(nil), c.Env...)
	for _, v := range []string{"PATH=" + defaultPath, "HOME=" + who.home, "GODEBUG=multipathtcp=0"} {
		if name, _, _ := strings.Cut(v, "="); lookup(env, name) == "" {
			env = append(env, v)
		}
	}
	if c.Terminal != "" && lookup(env, "TERM") == "" {
		env = append(env, "TERM=xterm-256color")
	}
	return env
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func lookup(env []string, name string) string {
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			return rest
		}
	}
	return ""
}

func checkDir(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case err != nil && errors.Is(err, os.ErrNotExist):
		return &driver.Error{
			Kind: driver.Refused, Text: fmt.Sprintf("the working directory %s doesn't exist inside the session", dir),
			Hint: "directories on other file systems of the host aren't part of a session",
		}
	case err != nil:
		return refuse("the working directory %s can't be used: %v", dir, err)
	case !st.IsDir():
		return refuse("the working directory %s is not a directory", dir)
	}
	return nil
}

// resolve finds the program as a shell does.
func (c Command) resolve(dir string) (string, error) {
	name := c.Argv[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, checkProgram(c.Argv[0], name)
	}
	path := lookup(c.Env, "PATH")
	if path == "" {
		path = defaultPath
	}
	var denied error
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		candidate := filepath.Join(d, name)
		err := checkProgram(name, candidate)
		if err == nil {
			return candidate, nil
		}
		if _, statErr := os.Stat(candidate); statErr == nil && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", cantRun(driver.NotFound, "command %q not found in %s", name, path)
}

func checkProgram(name, path string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return cantRun(driver.NotFound, "command %q not found: there is no %s inside the session", name, path)
	case err != nil:
		return cantRun(driver.NotExecutable, "command %q can't run: %v", name, err)
	case st.IsDir():
		return cantRun(driver.NotExecutable, "command %q can't run: %s is a directory", name, path)
	case st.Mode()&0o111 == 0:
		return cantRun(driver.NotExecutable, "command %q can't run: %s has no execute permission", name, path)
	}
	return nil
}

func explain(name, path string, err error) error {
	switch {
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return cantRun(driver.NotExecutable, "command %q can't run: permission denied for %s or its directory", name, path)
	case errors.Is(err, syscall.ENOENT):
		return cantRun(driver.NotExecutable, "command %q can't run: the interpreter of %s doesn't exist", name, path)
	case errors.Is(err, syscall.ENOEXEC):
		return cantRun(driver.NotExecutable, "command %q can't run: %s is not a program for this machine", name, path)
	case errors.Is(err, syscall.E2BIG):
		return cantRun(driver.NotExecutable, "command %q can't run: its arguments and environment are too long", name)
	}
	return fmt.Errorf("execute %s: %w", path, err)
}

// stdio gives the three standard descriptors, owned by the user so that it can
// open them again by /dev/stdout.
func (c Command) stdio(who account) ([]uintptr, error) {
	if c.Terminal != "" {
		fd, err := unix.Open(c.Terminal, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open terminal %s: %w", c.Terminal, err)
		}
		if err := unix.Fchown(fd, int(who.uid), -1); err != nil {
			return nil, fmt.Errorf("give terminal %s to its user: %w", c.Terminal, err)
		}
		return []uintptr{uintptr(fd), uintptr(fd), uintptr(fd)}, nil
	}
	next := uintptr(stdioFD)
	files := make([]uintptr, 3)
	if c.Stdin {
		files[0], next = next, next+1
	} else {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open /dev/null: %w", err)
		}
		files[0] = uintptr(fd)
	}
	files[1], files[2] = next, next+1
	for _, fd := range files[1:] {
		if err := unix.Fchown(int(fd), int(who.uid), int(who.gid)); err != nil {
			return nil, fmt.Errorf("give output to its user: %w", err)
		}
	}
	return files, nil
}
