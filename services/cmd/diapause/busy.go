package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
)

const busyHelp = `Run a command, and keep a session from being suspended for idleness while it runs:
a build, an agent's turn. NAME is the session; within a session it is that one. The
command gets the signals that this program gets, and its exit status is this
program's (128 and the signal's number, if a signal ended it).

Nothing of it depends on NATS: without a connection the command runs all the same,
and a word on standard error says so. If this program is killed the session counts as
busy for at most --ttl more. Credentials aren't needed.

A container doesn't know its session's name: name it, or run it with
-e DIAPAUSE_SESSION=NAME. Nothing says that there is no session of a NAME:
"diapause stats" counts those as strangers.`

// busyFlags are the flags of busy.
type busyFlags struct {
	operation, reason string
	ttl               time.Duration
}

func busyCommand(c *client) *cobra.Command {
	f := busyFlags{}
	cmd := &cobra.Command{
		Use: "busy [NAME] -- CMD [ARG]...", Short: "Keep a session awake while a command runs", Long: busyHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at < 0 || at > 1 || len(args) == at {
				return usagef("busy: want at most one session, then -- and the command").WithHint("usage: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			name := cmp.Or(surroundings(insideFile).Name, os.Getenv("DIAPAUSE_SESSION"))
			if at == 1 {
				name = args[0]
			}
			if name == "" {
				return usagef("busy: name the session: here it doesn't know its name").WithHint(
					"`diapause busy NAME -- CMD`, or set DIAPAUSE_SESSION: there is no %s, as in a container", insideFile)
			}
			return c.busy(name, f, args[at:])
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.operation, "operation", "", "the lease's key, so that a later one takes its place; one of its own if empty")
	fl.StringVar(&f.reason, "reason", "", "`TEXT` that diapause explain shows; the command's first word if empty")
	durationVar(fl, &f.ttl, "ttl", schemas.DefaultLease, "how long the lease lives without being renewed")
	return cmd
}

// insideFile is what a session is told of itself, written again whenever it starts to run. Its
// environment may be that of a session that it is a fork of, or from another host.
const insideFile = "/run/diapause/generation"

// within is what of it is of use here.
type within struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// surroundings reads it; nothing where this isn't inside of a session.
func surroundings(file string) (in within) {
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &in) != nil {
		return within{}
	}
	return in
}

// busy runs the command under a lease.
func (c *client) busy(name string, f busyFlags, command []string) error {
	if f.reason == "" {
		f.reason = command[0]
	}
	url, creds := c.nearest()
	var once sync.Once // it is in the way of the command's own words
	complain := func(err error) {
		once.Do(func() { fmt.Fprintf(os.Stderr, "diapause: session %s may not be seen as busy: %v\n", name, err) })
	}
	ec, err := events.Connect(events.Options{URL: url, Creds: creds, By: who(), OnError: complain})
	if errors.Is(err, natsconn.ErrRefused) || errors.Is(err, natsconn.ErrUntrusted) {
		complain(err)
		return statusOf(obey(command))
	}
	if err != nil {
		return err
	}
	session, err := ec.Session(name)
	if err == nil {
		_, err = session.Busy(context.Background(), f.operation, f.ttl, events.Because(f.reason))
	}
	if err != nil {
		_ = ec.Close() // nothing was said
		return usage(err)
	}
	status := obey(command)
	if err := ec.Close(); err != nil {
		complain(err)
	}
	return statusOf(status)
}

func statusOf(status int) error {
	if status == 0 {
		return nil
	}
	return exitStatus(status)
}

// nearest is the server that was asked for, else within a session the one of its host,
// else that of the local data directory if this user may look into it, else the one where `diapause up` listens by default.
func (c *client) nearest() (url, creds string) {
	if c.url != "" {
		return c.url, c.creds
	}
	if in := surroundings(insideFile); in.URL != "" {
		return in.URL, c.creds
	}
	if up, err := datadir.Locate(c.data); err == nil {
		return up.URL, up.ClientCreds
	}
	return nats.DefaultURL, c.creds
}

// The exit statuses that shells give to what can't be run.
const (
	statusNotFound = 127
	statusNotRun   = 126
	statusSignal   = 128
)

// obey runs a command with this program's streams and signals and gives its status.
func obey(command []string) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "diapause: "+err.Error())
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return statusNotFound
		}
		return statusNotRun
	}
	ended := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() { passOn(signals, cmd.Process, ended) })
	_ = cmd.Wait() // the state says it all
	close(ended)
	passing.Wait()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return statusSignal + int(ws.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// passOn gives the command the signals that it wouldn't get by itself.
func passOn(signals <-chan os.Signal, p *os.Process, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			if fromTerminal(s) && inForeground() {
				continue // the terminal sent it to both
			}
			_ = p.Signal(s) // it has ended, then
		case <-ended:
			return
		}
	}
}

func fromTerminal(s os.Signal) bool { return s == syscall.SIGINT || s == syscall.SIGQUIT }

// inForeground reports whether a terminal sends its signals to this process group.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
