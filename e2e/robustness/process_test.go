package robustness_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"filippo.io/age"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/e2e/natscluster"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/storetest/server"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// ordered is the variable with the order of a part that is a process of its own. It runs
// this very program.
const ordered = "DIAPAUSE_ROBUSTNESS_ORDER"

func TestMain(m *testing.M) {
	if text := os.Getenv(ordered); text != "" {
		if err := obey(text); err != nil {
			fmt.Fprintln(os.Stderr, "the part ends:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": server.AccessKey, "AWS_SECRET_ACCESS_KEY": server.SecretKey} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// order is what a process has to know.
type order struct {
	Name   string
	URLs   string
	Host   schemas.HostID
	Driver string // socket of the host's sessions: it is a worker; else it is services
	Images string
	Slow   string // file that is there while the images' disk is slow
	NATS   string // directory and address of a server: it is that
	At     string
	Key    string
	Signer ed25519.PrivateKey
}

// obey is the main function of a part.
func obey(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if o.NATS != "" {
		return serve(ctx, o)
	}
	f := &machines{log: slog.New(slog.NewTextHandler(os.Stderr, nil)).With("part", o.Name, "pid", os.Getpid()), names: stream.NamesWith(""), signer: o.Signer}
	var err error
	if f.key, err = age.ParseX25519Identity(o.Key); err != nil {
		return err
	}
	disk, err := dir.Open(o.Images)
	if err != nil {
		return err
	}
	f.store = &slowStore{Store: disk, flag: o.Slow}
	nc, err := natscluster.Connect(o.URLs, nats.Name(o.Name))
	if err != nil {
		return err
	}
	defer nc.Close()
	if o.Driver == "" {
		return f.decide(ctx, nc, o.Host)
	}
	return f.work(ctx, nc, o.Host, remote(o.Driver))
}

// serve is NATS, until ctx ends.
func serve(ctx context.Context, o order) error {
	host, port, err := net.SplitHostPort(o.At)
	if err != nil {
		return err
	}
	at, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := natsserver.NewServer(&natsserver.Options{JetStream: true, StoreDir: o.NATS, SyncAlways: true, Host: host, Port: at, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// serveNATS runs a server as a process of its own, which is started again when it ends.
func (f *machines) serveNATS() *natscluster.Cluster {
	f.t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	f.must(err)
	at := l.Addr().String()
	f.must(l.Close())
	f.server = &part{name: "NATS", door: &natscluster.Door{}, own: &process{f: f, order: order{NATS: f.t.TempDir(), At: at}}, log: f.log.With("part", "NATS")}
	f.server.begin()
	f.t.Cleanup(f.server.end)
	return natscluster.Around(f.t, at)
}

// process is a part that is a process of its own.
type process struct {
	f       *machines
	order   order
	command func(urls string) *exec.Cmd // makes it, if it isn't this program with an order
	gentle  atomic.Bool                 // it is asked to end, and not killed

	mu  sync.Mutex
	cmd *exec.Cmd // that runs; nil if none does
}

// process gives a part's, if it is to have one.
func (f *machines) process(own bool, o order) *process {
	if !own {
		return nil
	}
	o.Slow, o.Key, o.Signer = f.store.flag, f.key.String(), f.signer
	return &process{f: f, order: o}
}

// raced is how a program ends in which the race detector has found something.
const raced = 66

// run has the process live until it ends, or is killed for the end of ctx.
func (p *process) run(ctx context.Context, name, urls string) error {
	cmd, err := p.made(name, urls)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.mu.Lock()
	err = threadtest.Start(cmd)
	if err == nil {
		p.cmd = cmd
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		s := syscall.SIGKILL
		if p.gentle.Load() {
			s = syscall.SIGTERM
		}
		_ = p.signal(s) // it may have ended
	})
	err = cmd.Wait()
	stop()
	p.mu.Lock()
	p.cmd = nil
	p.mu.Unlock()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == raced {
		p.f.complain("the race detector has something to say of %s", name)
	}
	return err
}

// made gives the command of the process, which isn't started yet.
func (p *process) made(name, urls string) (*exec.Cmd, error) {
	if p.command != nil {
		return p.command(urls), nil
	}
	o := p.order
	o.Name, o.URLs = name, urls
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), ordered+"="+string(encoded(o)))
	cmd.Stdout, cmd.Stderr = p.f.said, p.f.said
	return cmd, nil
}

// signal sends it a signal, if it runs.
func (p *process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
