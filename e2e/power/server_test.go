package power_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/diapause/diapause/services/embedded"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// serverOn, in the environment, makes this program a server that keeps its data
// there. With withoutSync it is one that doesn't sync what it acknowledges.
const (
	serverOn    = "DIAPAUSE_POWER_SERVER_ON"
	withoutSync = "DIAPAUSE_POWER_WITHOUT_SYNC"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverOn); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve runs a server until the process is killed.
func serve(dir string) error {
	url := ""
	if os.Getenv(withoutSync) != "" {
		s, err := server.NewServer(&server.Options{
			JetStream: true, StoreDir: filepath.Join(dir, "nats"), JetStreamMaxStore: 1 << 40, SyncInterval: time.Hour,
			Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true,
		})
		if err != nil {
			return err
		}
		s.Start()
		if !s.ReadyForConnections(limit) {
			return fmt.Errorf("the server doesn't start")
		}
		url = s.ClientURL()
	} else {
		s, err := embedded.Start(context.Background(), embedded.Options{StoreDir: filepath.Join(dir, "nats"), CredsDir: filepath.Join(dir, "creds")})
		if err != nil {
			return err
		}
		url = s.SecureURL()
	}
	fmt.Println(url)
	_, err := bufio.NewReader(os.Stdin).ReadByte() // the parent's end of it never says anything
	return err
}

// process is a server in a process of its own.
type process struct {
	cmd *exec.Cmd
	url string
}

func startServer(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), append(env, serverOn+"="+dir)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := threadtest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd}
	t.Cleanup(func() { in.Close(); p.kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the server doesn't start: %v: %s", err, said.String())
	}
	p.url = strings.TrimSpace(line)
	return p
}

// stop halts all threads of the server: what they were writing is written.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(limit); !p.stopped(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server's threads don't stop")
		}
	}
}

func (p *process) stopped() bool {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		return false
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return true
}

// kill ends the server at once. A second call does nothing.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
