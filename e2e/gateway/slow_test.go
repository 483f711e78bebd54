package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asSlow is the variable that has this program be slow clients: "ADDRESS NUMBER".
const asSlow = "DIAPAUSE_TEST_SLOW"

// slowUsers are who the slow clients are of: one user of a machine has fewer connections than there are of them.
var slowUsers = []uint32{65531, 65532, 65533}

// slowClients is how many there are of each user: 600 in all, or 10,200 in a long run.
func slowClients() int {
	if os.Getenv("DIAPAUSE_LONG") != "" {
		return 3400
	}
	return 200
}

// TestSlowClients has many clients begin a header and never end it. A good one is answered meanwhile, the gateway's memory stays within
// bounds, and each of the others is cut.
func TestSlowClients(t *testing.T) {
	w := newWorld(t)
	token := w.token("--role", "operator")
	before, err := w.Resident()
	w.must(err)
	var cut sync.WaitGroup
	for _, user := range slowUsers {
		opened := w.slow(user, slowClients(), &cut)
		if line, err := bufio.NewReader(opened).ReadString('\n'); line != "open\n" {
			t.Fatalf("the clients of user %d say %q, %v", user, line, err)
		}
		for range 10 {
			if r := w.send(w.address, "GET", "/api/v1/sessions", token, ""); r.StatusCode != http.StatusOK {
				t.Fatalf("a good client gets %d", r.StatusCode)
			}
		}
	}
	const each = 64 << 10 // bytes of memory, which is more than a connection takes
	after, err := w.Resident()
	w.must(err)
	grown := after - before
	t.Logf("%d slow clients take %d KiB each", len(slowUsers)*slowClients(), grown>>10/(len(slowUsers)*slowClients()))
	if most := 64<<20 + len(slowUsers)*slowClients()*each; grown > most {
		t.Errorf("the daemon has %d MiB more", grown>>20)
	}
	cut.Wait()
}

// slow starts clients of a user, and gives what they say. They are waited for by cut, and end once all of them were cut.
func (w *world) slow(user uint32, clients int, cut *sync.WaitGroup) io.Reader {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), "/proc/self/exe")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), fmt.Sprintf("%s=%s %d", asSlow, w.address, clients))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	said, err := cmd.StdoutPipe()
	w.must(err)
	var wrong strings.Builder
	cmd.Stderr = &wrong
	w.must(cmd.Start())
	cut.Go(func() {
		if err := cmd.Wait(); err != nil {
			w.Errorf("the slow clients of user %d end with %v: %s", user, err, wrong.String())
		}
	})
	return said
}

// beSlow is slow clients.
func beSlow(what string) error {
	address, number, _ := strings.Cut(what, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	var all []net.Conn
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(c, "GET /api/v1/sessions HTTP/1.1\r\nHost: "); err != nil {
			return err
		}
		all = append(all, c)
	}
	fmt.Println("open")
	for _, c := range all {
		if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("a client isn't cut: %w", err)
		}
	}
	return nil
}
