package failpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Variable is the environment variable that programs read a set from.
const Variable = "DIAPAUSE_FAILPOINTS"

// ErrAsked is the cause of the error that a set makes because it was asked to.
var ErrAsked = errors.New("asked to fail here")

// Parse reads name=action[@n], separated by semicolons; n is the time that counts, 1
// if it isn't given. Actions are error; kill, which ends this process as SIGKILL
// does; stop, which stops it as SIGSTOP does, until a SIGCONT; hang,
// until the context ends; and pause:10s. With once=DIR in it, each happens once among
// all processes that read the text, and leaves a file NAME@n in that directory when it
// begins, with the process's id in it. An empty text is the nil set.
func Parse(text string) (*Set, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	s := New()
	for one := range strings.SplitSeq(text, ";") {
		name, what, ok := strings.Cut(strings.TrimSpace(one), "=")
		if !ok {
			return nil, fmt.Errorf("failpoint %q: want name=action", one)
		}
		if name == onceItem {
			s.once = what
			continue
		}
		what, times, counted := strings.Cut(what, "@")
		nth := 1
		if counted {
			var err error
			if nth, err = strconv.Atoi(times); err != nil {
				return nil, fmt.Errorf("failpoint %s: %q is no number of times", name, times)
			}
		}
		do, err := parseAction(what)
		if err == nil {
			err = s.Arm(Name(name), nth, do)
		}
		if err != nil {
			return nil, fmt.Errorf("read the failpoints: %w", err)
		}
		s.items = append(s.items, item{Name(name), strings.TrimSpace(one)})
	}
	return s, nil
}

// onceItem is no moment.
const onceItem = "once"

func parseAction(what string) (func(context.Context) error, error) {
	action, length, _ := strings.Cut(what, ":")
	switch action {
	case "error":
		return func(context.Context) error { return ErrAsked }, nil
	case "kill":
		return kill, nil
	case "stop":
		return stop, nil
	case "hang":
		return hang, nil
	case "pause":
		d, err := time.ParseDuration(length)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("%q: want pause and how long, as in pause:10s", what)
		}
		return func(ctx context.Context) error { return pause(ctx, d) }, nil
	}
	return nil, fmt.Errorf("%q is none of error, kill, stop, hang, pause:10s", what)
}

// kill ends this process, and never returns.
func kill(context.Context) error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill this process: %w", err)
	}
	select {}
}

// stop stops all threads of this process. The signal is sent to the thread that asked, which
// takes it on its way out of the call: another one may get to it much later.
func stop(context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP); err != nil {
		return fmt.Errorf("stop this process: %w", err)
	}
	return nil
}

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// pause takes its time in any case, as a stopped process does.
func pause(_ context.Context, d time.Duration) error {
	time.Sleep(d)
	return nil
}
