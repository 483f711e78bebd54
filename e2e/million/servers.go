package million

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/services/trim"
)

// startLimit bounds how long servers may take to read what they have stored.
const startLimit = 5 * time.Minute

// started is what a server says when it takes connections.
type started struct {
	URL  string        `json:"url"`
	Took time.Duration `json:"took"`
}

// serve is the role of a NATS server.
func serve(o orders, say func(any), stop <-chan struct{}) error {
	opts := &server.Options{
		ServerName: o.Name, JetStream: true, StoreDir: o.Dir, SyncAlways: o.Sync, JetStreamMaxStore: 1 << 40,
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
	}
	if o.Port > 0 {
		opts.Cluster = server.ClusterOpts{Name: "million", Host: "127.0.0.1", Port: o.Port}
		for _, r := range o.Routes {
			u, err := url.Parse(r)
			if err != nil {
				return err
			}
			opts.Routes = append(opts.Routes, u)
		}
	}
	if o.GC > 0 {
		debug.SetGCPercent(o.GC)
	}
	if o.Trims {
		go func() { _ = trim.Serve(context.Background()) }() // until the process ends; it has no other error
	}
	began := time.Now()
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("make a NATS server: %w", err)
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	for !ready(s, o) {
		if time.Since(began) > startLimit {
			return errors.New("the NATS server isn't ready")
		}
		time.Sleep(10 * time.Millisecond)
	}
	say(started{s.ClientURL(), time.Since(began)})
	<-stop
	if o.GC > 0 {
		say(collected())
	}
	return nil
}

func ready(s *server.Server, o orders) bool {
	if !s.ReadyForConnections(10 * time.Millisecond) {
		return false
	}
	return o.Port == 0 || s.JetStreamIsCurrent()
}

// servers are one NATS server, or a cluster.
type servers struct {
	all  []*child
	dirs []string
	urls []string
	took time.Duration // until the last one was ready
}

// startServers runs that many servers, each in a directory below dir.
func startServers(ctx context.Context, dir string, size int, sync bool) (*servers, error) {
	ports := make([]int, size)
	var routes []string
	if size > 1 {
		for i := range ports {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			ports[i] = l.Addr().(*net.TCPAddr).Port
			routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", ports[i]))
			l.Close()
		}
	}
	s := &servers{}
	for i := range size {
		at := filepath.Join(dir, fmt.Sprint("server-", i))
		c, err := start(ctx, "server", 0, orders{Name: fmt.Sprint("n", i), Dir: at, Sync: sync, Port: ports[i], Routes: routes})
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.all, s.dirs = append(s.all, c), append(s.dirs, at)
	}
	for _, c := range s.all {
		var said started
		if err := c.hear(&said); err != nil {
			return nil, err
		}
		s.urls, s.took = append(s.urls, said.URL), max(s.took, said.Took)
	}
	return s, nil
}

func (s *servers) url() string { return strings.Join(s.urls, ",") }

func (s *servers) connect() (*nats.Conn, error) {
	return nats.Connect(s.url(), nats.MaxReconnects(-1), nats.ReconnectBufSize(64<<20))
}

func (s *servers) stop() error {
	var all []error
	for _, c := range s.all {
		all = append(all, c.end())
	}
	return errors.Join(all...)
}

// memory and disk are what the first server takes, in bytes.
func (s *servers) memory() (int64, error) { return resident(s.all[0].cmd.Process.Pid) }

func (s *servers) disk() (sum int64, err error) {
	err = filepath.WalkDir(s.dirs[0], func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it tidies up
		}
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		sum += i.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	return sum, err
}
