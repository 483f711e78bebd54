package fleet

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// witness hears every step of a session's counter, from whichever copy of it runs.
type witness struct {
	t    *testing.T
	conn *net.UDPConn

	mu    sync.Mutex
	heard []int
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{t: t, conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.listen()
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return w
}

func (w *witness) listen() {
	b := make([]byte, 64)
	for {
		n, err := w.conn.Read(b)
		if err != nil {
			return
		}
		if i, err := strconv.Atoi(strings.TrimSpace(string(b[:n]))); err == nil {
			w.mu.Lock()
			w.heard = append(w.heard, i)
			w.mu.Unlock()
		}
	}
}

// command counts, from 1 on, and says each number before it goes on to the next. A copy that stands still with its
// socket open shares that port with the next: hosts of these tests share one network.
func (w *witness) command() []string {
	port := w.conn.LocalAddr().(*net.UDPAddr).Port
	return []string{"perl", "-MIO::Socket::INET", "-e", fmt.Sprintf(`while (++$i) {
		IO::Socket::INET->new(Proto => "udp", PeerAddr => "127.0.0.1", PeerPort => %d, ReuseAddr => 1)->send($i);
		select undef, undef, undef, 0.05;
	}`, port)}
}

func (w *witness) numbers() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]int(nil), w.heard...)
}

// goesOn waits until the session has counted on for some steps.
func (w *witness) goesOn() {
	w.t.Helper()
	from := len(w.numbers())
	eventually(w.t, "the session counts on", func() error {
		if n := len(w.numbers()) - from; n < 5 {
			return fmt.Errorf("%d steps", n)
		}
		return nil
	})
}

// drops says where the count went back: a copy that ran beside another would make it
// go back again and again.
func (w *witness) drops() (at []string) {
	all := w.numbers()
	for i := 1; i < len(all); i++ {
		if all[i] <= all[i-1] {
			at = append(at, fmt.Sprintf("%d after %d", all[i], all[i-1]))
		}
	}
	return at
}

// within bounds what a test waits for, on a slow and busy machine.
const within = 60 * time.Second

func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %v", what, within, err)
		}
	}
}
