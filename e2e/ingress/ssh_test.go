package ingress

import (
	"bufio"
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// TestSSH logs in to OpenSSH's server in a suspended session by its own client, through a listener of `ingress add`. The login is presence
// while it is open, and no longer.
func TestSSH(t *testing.T) {
	t.Parallel()
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none", "--http", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("make a key: %v, %s", err, out)
		}
	}
	const serve = `mkdir -p -m 755 /run/sshd && exec /usr/sbin/sshd -D -e -f /dev/null -h "$1/host" -o Port=2222 -o ListenAddress=127.0.0.1 -o PidFile=none ` +
		`-o UsePAM=no -o StrictModes=no -o AuthorizedKeysFile="$1/user.pub" -o PermitRootLogin=yes`
	must(t, s, "run", "--name", "host", "--network", "private", "--idle", "never", "--", "/bin/sh", "-c", serve, "sh", dir)
	at := listenerFor(t, s, "host", "2222")
	suspend(t, s, "host")
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	_, port, _ := net.SplitHostPort(at)
	ssh := exec.CommandContext(ctx, "ssh", "-F", "none", "-i", filepath.Join(dir, "user"), "-p", port, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", "root@127.0.0.1", "echo hello; cat")
	in, err := ssh.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := ssh.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var wrong strings.Builder
	ssh.Stderr = &wrong
	if err := ssh.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "hello\n" {
		_ = ssh.Wait() // it has ended
		t.Fatalf("the login says %q, %v: %s", line, err, wrong.String())
	}
	if got := state(t, s, "host"); got != schemas.Running {
		t.Errorf("after the login the session is %s", got)
	}
	until(t, "the login is presence", func() bool {
		return strings.Contains(must(t, s, "explain", "host"), "connection to port 2222 (tcp by 127.0.0.1)")
	})
	if _, err := io.WriteString(in, "typed\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := said.ReadString('\n'); line != "typed\n" {
		t.Fatalf("what is typed comes back as %q, %v", line, err)
	}
	in.Close()
	if err := ssh.Wait(); err != nil {
		t.Fatalf("the login ends with %v: %s", err, wrong.String())
	}
	until(t, "it is no more", func() bool { return !strings.Contains(must(t, s, "explain", "host"), "presence.ingress-") })
	suspend(t, s, "host")
	if out := must(t, s, "history", "host"); !strings.Contains(out, "connection to port 2222 (tcp by 127.0.0.1)") {
		t.Errorf("history doesn't name the login: %s", out)
	}
}

// listenerFor has up listen for a port of a session, and gives where. A port that was free may be taken meanwhile.
func listenerFor(t *testing.T, s *stack.Stack, name, port string) (at string) {
	t.Helper()
	until(t, "up listens for "+name, func() bool {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at = l.Addr().String()
		l.Close()
		if strings.Contains(must(t, s, "ingress", "add", "--listen", at, name, port), "listening") {
			return true
		}
		must(t, s, "ingress", "rm", at)
		return false
	})
	return at
}
