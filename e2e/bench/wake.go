package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/services/ingress"
)

// WakeLoad is how many requests resume how many sessions of a size.
type WakeLoad struct {
	MB       int // that each holds; a small program's own if 0
	Sessions int
	Requests int // in all
}

// Woken is what they took.
type Woken struct {
	WakeLoad
	Failed int
	Stages map[string][]time.Duration // by the name of the stage, of each request
	All    []time.Duration            // from the request to the first byte of its answer
}

// Wakes are all loads, and requests to a session that runs.
type Wakes struct {
	Loads []Woken
	Warm  Warm
}

// wokenServer is a server in a session: it holds memory, and says how often it was asked.
const wokenServer = `
import os, socket, sys, threading
held = [os.urandom(1 << 20) for _ in range(int(sys.argv[2]))]
asked, piece = 0, bytes(1 << 20)
def serve(c):
    global asked
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    text = b""
    while True:
        while b"\r\n\r\n" not in text:
            more = c.recv(65536)
            if not more: return c.close()
            text += more
        line, _, _ = text.partition(b"\r\n")
        _, _, text = text.partition(b"\r\n\r\n")
        path = line.split()[1].decode()
        if path.startswith("/down/"):
            n = int(path[6:])
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (n << 20))
            for _ in range(n): c.sendall(piece)
            continue
        if path == "/count": asked += 1
        body = b"%d" % asked
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
l = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    c, _ = l.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
`

const wokenPort = 8080

// MeasureWakes has requests resume sessions, through the gateway of a daemon, and asks one that runs so many times.
func MeasureWakes(ctx context.Context, loads []WakeLoad, warm int) (all Wakes, err error) {
	dir, binary, err := scratch()
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	port, err := freePort()
	if err != nil {
		return all, err
	}
	g := &gate{address: net.JoinHostPort("127.0.0.1", port), binary: binary}
	d, err := local.StartWith(ctx, binary, filepath.Join(dir, "wake"), nil, "--http", g.address)
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, d.Stop(context.WithoutCancel(ctx))) }()
	g.data = d.Data()
	if err := g.open(ctx); err != nil {
		return all, err
	}
	for _, l := range loads {
		w, err := g.wake(ctx, d, l)
		if err != nil {
			return all, fmt.Errorf("sessions of %d MB: %w", l.MB, err)
		}
		all.Loads = append(all.Loads, w)
	}
	all.Warm, err = g.warm(ctx, d, warm)
	return all, err
}

// gate is the gateway of the daemon.
type gate struct {
	address, binary, data, token string
}

// open gets a token, and waits for the gateway.
func (g *gate) open(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, g.binary, "--data", g.data, "token", "create", "--role", "operator").Output()
	if err != nil {
		return fmt.Errorf("make a token: %w", err)
	}
	g.token = strings.TrimSpace(string(out))
	return eventually(ctx, func() (bool, error) {
		r, err := g.send(ctx, http.MethodGet, "localhost", "/api/v1/whoami")
		return err == nil && r.status == http.StatusOK, err
	})
}

// sent is an answer.
type sent struct {
	status int
	text   string
	timing []string
	first  time.Duration // to its first byte
}

// send sends a request on a connection of its own.
func (g *gate) send(ctx context.Context, method, host, path string) (s sent, err error) {
	began := time.Now()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", g.address)
	if err != nil {
		return s, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.SetDeadline(began.Add(transferLimit)); err != nil {
		return s, err
	}
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nDiapause-Token: %s\r\nAuthorization: Bearer %[4]s\r\nAccept: application/json\r\nConnection: close\r\n\r\n", method, path, host, g.token); err != nil {
		return s, err
	}
	in := bufio.NewReader(c)
	if _, err := in.Peek(1); err != nil {
		return s, err
	}
	s.first = time.Since(began)
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return s, err
	}
	text, err := io.ReadAll(r.Body)
	s.status, s.text, s.timing = r.StatusCode, string(text), r.Header.Values(ingress.TimingHeader)
	return s, err
}

// eventually tries until it has worked.
func eventually(ctx context.Context, try func() (bool, error)) error {
	for end := time.Now().Add(patience); ; {
		ok, err := try()
		if ok {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return errors.Join(fmt.Errorf("it takes longer than %s", patience), ctx.Err(), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// wake measures one load. Two sessions are asked for at a time.
func (g *gate) wake(ctx context.Context, d *local.Daemon, l WakeLoad) (w Woken, err error) {
	w = Woken{WakeLoad: l, Stages: map[string][]time.Duration{}}
	var mu sync.Mutex
	turns := make(chan struct{}, 2)
	errs := make([]error, l.Sessions)
	var all sync.WaitGroup
	for i := range l.Sessions {
		name := fmt.Sprintf("wake-%d-%d", l.MB, i)
		s, err := d.Run(ctx, name, []string{"--network", "private", "--idle", "never"}, "python3", "-c", wokenServer, strconv.Itoa(wokenPort), strconv.Itoa(l.MB))
		if err != nil {
			return w, err
		}
		defer func() { err = errors.Join(err, s.Remove(context.WithoutCancel(ctx))) }()
		all.Go(func() {
			counted := 0
			for n := i; n < l.Requests && errs[i] == nil; n += l.Sessions {
				turns <- struct{}{}
				var one sent
				one, counted, errs[i] = g.first(ctx, name, counted)
				<-turns
				mu.Lock()
				w.add(one)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return w, errors.Join(errs...)
}

// first suspends a session and asks for it, until the request is what resumes it: what is told late of the one before may have.
func (g *gate) first(ctx context.Context, name string, counted int) (s sent, n int, err error) {
	for {
		if err := g.suspend(ctx, name); err != nil {
			return s, counted, err
		}
		s, err = g.send(ctx, http.MethodGet, fmt.Sprintf("%d--%s.default.localhost", wokenPort, name), "/count")
		if err != nil || s.status != http.StatusOK {
			return s, counted, err
		}
		if counted++; s.text != strconv.Itoa(counted) {
			return s, counted, fmt.Errorf("session %s counts %q, want %d", name, s.text, counted)
		}
		if len(s.timing) > 0 {
			return s, counted, nil
		}
	}
}

func (g *gate) suspend(ctx context.Context, name string) error {
	return eventually(ctx, func() (bool, error) {
		r, err := g.send(ctx, http.MethodPost, "localhost", "/api/v1/sessions/"+name+"/suspend")
		return err == nil && r.status == http.StatusOK && strings.Contains(r.text, `"state":"suspended"`), err
	})
}

var stageText = regexp.MustCompile(`(diapause-[a-z]+);dur=([0-9.]+)`)

func (w *Woken) add(s sent) {
	if s.status != http.StatusOK {
		w.Failed++
		return
	}
	w.All = append(w.All, s.first)
	for _, m := range stageText.FindAllStringSubmatch(strings.Join(s.timing, ","), -1) {
		ms, _ := strconv.ParseFloat(m[2], 64) // as the expression has it
		w.Stages[m[1]] = append(w.Stages[m[1]], time.Duration(ms*float64(time.Millisecond)))
	}
}

// nth gives the value that so many in a hundred are at most.
func nth(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Clone(all)
	slices.Sort(all)
	return all[min(len(all)-1, len(all)*percent/100)]
}
