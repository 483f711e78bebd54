package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// The credentials of every server here, and its bucket.
const (
	AccessKey = "diapause-test"
	SecretKey = "diapause-test-secret"
	Bucket    = "images"
)

// Kind is one of the servers.
type Kind string

// The kinds of servers.
const (
	MinIO     Kind = "minio"
	Versitygw Kind = "versitygw"
)

// Kinds are all of them.
var Kinds = []Kind{MinIO, Versitygw}

// Server is one running server.
type Server struct {
	kind    Kind
	dir     string
	address string
	cmd     *exec.Cmd
	log     *log
	ended   chan struct{}
}

// log keeps what the server printed.
type log struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// Binary is the path of a server's program.
func Binary(k Kind) (string, error) {
	prefix := os.Getenv("DIAPAUSE_PREFIX")
	if prefix == "" {
		prefix = "/opt/diapause"
	}
	path := filepath.Join(prefix, "servers", string(k))
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is missing: `make setup-test` builds it (%w)", k, err)
	}
	return path, nil
}

// Start starts a server that keeps its objects in dir, and makes its bucket.
func Start(ctx context.Context, k Kind, dir string) (*Server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &Server{kind: k, dir: dir, address: address}
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	client, err := s.client()
	if err == nil {
		err = client.MakeBucket(ctx, Bucket, minio.MakeBucketOptions{})
	}
	if err != nil {
		s.Kill()
		return nil, fmt.Errorf("make bucket on %s: %w: %s", k, err, s.log)
	}
	return s, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// readyWait bounds the wait for a server that starts.
const readyWait = 2 * time.Minute

// Restart starts the server again after Kill, at the same address with the same
// objects, and returns when it answers.
func (s *Server) Restart(ctx context.Context) error {
	binary, err := Binary(s.kind)
	if err != nil {
		return err
	}
	data, scratch := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "home")
	for _, d := range []string{data, scratch} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make the directories of %s: %w", s.kind, err)
		}
	}
	switch s.kind {
	case MinIO:
		s.cmd = exec.Command(binary, "server", "--quiet", "--address", s.address, "--console-address", "127.0.0.1:0", data)
	default:
		s.cmd = exec.Command(binary, "--quiet", "--port", s.address, "posix", data)
	}
	s.cmd.Env = append(os.Environ(), "HOME="+scratch, "MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CI_CD=1",
		"MINIO_ROOT_USER="+AccessKey, "MINIO_ROOT_PASSWORD="+SecretKey, "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	s.log = &log{}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.kind, err)
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return s.ready(ctx)
}

// ready waits until the server answers.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		if client, err := s.client(); err == nil {
			if _, err = client.ListBuckets(ctx); err == nil {
				return nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.ended:
			return fmt.Errorf("%s ended by itself: %s", s.kind, s.log)
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("%s doesn't answer: %s", s.kind, s.log)
		}
	}
}

func (s *Server) client() (*minio.Client, error) {
	return minio.New(s.address, &minio.Options{
		Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: "us-east-1", MaxRetries: 1,
		Transport: &http.Transport{DisableKeepAlives: true},
	})
}

// Address is where the server listens.
func (s *Server) Address() string { return s.address }

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// URL is that of a store in the server's bucket.
func (s *Server) URL(prefix string) string { return URLAt(s.address, prefix) }

// URLAt is that of the same store by way of another address, a proxy's.
func URLAt(address, prefix string) string {
	return "s3://" + Bucket + "/" + prefix + "?endpoint=http://" + address + "&region=us-east-1"
}

// Environment is what a program needs to use the server.
func Environment() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey}
}

// Kill ends the server with SIGKILL; its objects stay.
func (s *Server) Kill() {
	syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.ended
}
