package compose

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diapause/diapause/workers/network/networktest"
)

// disturb runs chaos.sh in a network until it says that a fault begins. end asks it to end.
func disturb(t *testing.T, o *networktest.Outside, fault string) (end func()) {
	t.Helper()
	cmd := exec.Command(filepath.Join(top, "compose", "chaos.sh"), fault)
	cmd.Env = append(os.Environ(), "CHAOS_PAUSE=1", "CHAOS_FAULT=1000")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = o.Start(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	for line := ""; !strings.Contains(line, fault+" for 1000 s"); {
		if line, err = said.ReadString('\n'); err != nil {
			t.Fatalf("chaos.sh %s says %q and no more: %v", fault, line, err)
		}
	}
	return func() {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		line, err := said.ReadString('\n')
		if err != nil || !strings.Contains(line, "ends") {
			t.Errorf("chaos.sh, asked to end, says %q: %v", line, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("chaos.sh, asked to end: %v", err)
		}
	}
}

// A part that is cut off reaches nothing until that is over, and then goes on with the connections that
// it has; another fault leaves it what it isn't about.
func TestChaos(t *testing.T) {
	o := networktest.New(t)
	at := netip.AddrPortFrom(o.Host, networktest.Echo(t, o.Host)).String()
	dial := func(within time.Duration) (c net.Conn, err error) {
		err = o.Inside(func() error {
			c, err = net.DialTimeout("tcp4", at, within)
			return err
		})
		return c, err
	}
	c, err := dial(time.Minute) // the first packets may be lost until the link is up
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	end := disturb(t, o, "cut")
	if other, err := dial(time.Second); err == nil {
		other.Close()
		t.Error("a part that is cut off makes a connection")
	}
	if _, err := c.Write([]byte("late\n")); err != nil {
		t.Errorf("write while cut off: %v", err)
	}
	end()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "late\n" {
		t.Errorf("after that it hears %q: %v", line, err)
	}
	end = disturb(t, o, "store")
	if other, err := dial(time.Minute); err != nil {
		t.Errorf("without the store alone: %v", err)
	} else {
		other.Close()
	}
	end()
}
