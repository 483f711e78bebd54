package rpc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The verbs of criu's command line that can stream.
const (
	DumpVerb    = "dump"
	RestoreVerb = "restore"
)

// Streamed is one criu that was started with its command line, its images going
// through pipes, or from files if it is held. The directory o.ImagesDir has the streamer's
// socket, and gets criu's log.
type Streamed struct {
	cmd    *exec.Cmd
	script *os.File // criu runs it between its steps

	// Both ends of both are open here as long as criu runs: the script opens its
	// own by our descriptors.
	steps, answers pipe
}

type pipe struct{ r, w *os.File }

func (p pipe) close() {
	p.r.Close()
	p.w.Close()
}

// StartStreamed runs criu, with start and files as in Start.
func StartStreamed(command []string, verb string, o Options, start Starter, files ...*os.File) (_ *Streamed, err error) {
	s := &Streamed{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.steps.r, s.steps.w, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make criu's pipes: %w", err)
	}
	if s.answers.r, s.answers.w, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make criu's pipes: %w", err)
	}
	if s.script, err = s.writeScript(told); err != nil {
		return nil, fmt.Errorf("write criu's script: %w", err)
	}
	// Number 3 is the socket's in the other way to run it: the files have the same
	// numbers in both.
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer nothing.Close()
	argv := append(append(slices.Clone(command), verb, "--stream"), o.arguments(verb)...)
	argv = append(argv, "--action-script", ownPath(s.script))
	s.cmd, err = spawn(argv, o.ImagesDir, start, append([]*os.File{nothing}, files...))
	return s, err
}

// ownPath is where another process finds a file that is open here.
func ownPath(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// told tells us of a step, and asks whether to go on.
const told = `#!/bin/sh
case "$CRTOOLS_SCRIPT_ACTION" in
` + PostDump + "|" + SetupNamespaces + "|" + PostRestore + "|" + PreResume + `) ;;
*) exit 0 ;;
esac
echo "$CRTOOLS_SCRIPT_ACTION ${CRTOOLS_INIT_PID:-0}" >%[1]s
read -r answer <%[2]s && [ "$answer" = go ]
`

// writeScript makes the script. criu closes all descriptors of it, and images' directories
// can't execute.
func (s *Streamed) writeScript(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "script")
	if _, err = fmt.Fprintf(f, text, ownPath(s.steps.w), ownPath(s.answers.r)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (s *Streamed) close() {
	s.steps.close()
	s.answers.close()
	s.script.Close()
}

// PID is criu's process id.
func (s *Streamed) PID() int { return s.cmd.Process.Pid }

// KillRestore ends a criu that hangs at the end of a restore, as that of Process.
func (s *Streamed) KillRestore() { _ = s.cmd.Process.Kill() }

// Wait returns when criu has ended. notify is called between its steps.
func (s *Streamed) Wait(notify func(Notice) error) error {
	ended := make(chan error, 1)
	go func() {
		err := s.cmd.Wait()
		// It waits for each answer, so no step is left unread.
		_ = s.steps.r.SetReadDeadline(time.Now())
		ended <- err
	}()
	refused, err := s.converse(notify)
	waitErr := <-ended
	s.close()
	var exit *exec.ExitError
	switch {
	case refused != nil:
		return &Failure{Caller: refused}
	case err != nil:
		return err
	case errors.As(waitErr, &exit):
		return killedOr(&Failure{Text: "criu failed: " + exit.Error()}, waitErr)
	}
	return waitErr
}

// converse answers criu until it ends. refused is the first error of notify, err
// what went wrong with the conversation itself.
func (s *Streamed) converse(notify func(Notice) error) (refused, err error) {
	lines := bufio.NewReader(s.steps.r)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return refused, nil
		}
		if err != nil {
			return refused, fmt.Errorf("read criu's step: %w", err)
		}
		step, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.Atoi(number)
		if err == nil && refused == nil {
			refused = notify(Notice{Step: step, PID: pid})
		}
		answer := "go\n"
		if err != nil || refused != nil {
			answer = "no\n"
		}
		if _, err := io.WriteString(s.answers.w, answer); err != nil {
			return refused, fmt.Errorf("answer criu at %s: %w", step, err)
		}
	}
}

// arguments are the options as the command line has them.
func (o Options) arguments(verb string) []string {
	// By ".": the address of a socket has no room for a long path.
	a := []string{"--no-default-config", "--images-dir", ".", "--log-file", o.LogFile,
		"-v" + strconv.Itoa(o.LogLevel), "--manage-cgroups=ignore", "--network-lock", "skip", "--skip-in-flight"}
	flag := func(set bool, words ...string) {
		if set {
			a = append(a, words...)
		}
	}
	if verb == RestoreVerb {
		a = append(a, "--restore-detached")
	}
	flag(o.PID != 0, "--tree", strconv.Itoa(o.PID))
	flag(o.Root != "", "--root", o.Root)
	flag(o.LeaveRunning, "--leave-running")
	flag(o.TCPEstablished, "--tcp-established")
	flag(o.TCPClose, "--tcp-close")
	flag(o.ShellJob, "--shell-job")
	flag(o.FileLocks, "--file-locks")
	flag(o.LinkRemap, "--link-remap")
	flag(o.GhostLimit != 0, "--ghost-limit", strconv.FormatUint(uint64(o.GhostLimit), 10))
	flag(o.FreezeCgroup != "", "--freeze-cgroup", o.FreezeCgroup)
	flag(o.RestoreSibling, "--restore-sibling")
	flag(o.EmptyNetwork, "--empty-ns", "net")
	flag(o.Timeout != 0, "--timeout", strconv.FormatUint(uint64(o.Timeout), 10))
	for _, e := range o.External {
		a = append(a, "--external", e)
	}
	for _, path := range o.IrmapScanPaths {
		a = append(a, "--irmap-scan-path", path)
	}
	for _, in := range o.Inherit {
		a = append(a, "--inherit-fd", fmt.Sprintf("fd[%d]:%s", in.FD, in.Key))
	}
	return a
}
