package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
	"github.com/diapause/diapause/services/ingress"
)

// Warm are requests to a session that runs, one after another on one connection for each way.
type Warm struct {
	Requests int
	Ways     []WarmWay
}

// WarmWay is one way to the session's port.
type WarmWay struct {
	Way      string
	P50, P99 time.Duration // of a request
	Down     float64       // megabytes a second
}

// The requests of one turn of a way, and what is downloaded.
const (
	warmTurn = 100
	warmDown = 128 // MiB
)

// warmWay is a way that is measured.
type warmWay struct {
	name, host string
	conn       net.Conn
	in         *bufio.Reader
	took       []time.Duration
}

// warm measures a direct connection, the gateway of the daemon, and `diapause ingress`: in turns, as a machine isn't the same
// at all times.
func (g *gate) warm(ctx context.Context, d *local.Daemon, requests int) (w Warm, err error) {
	w.Requests = requests
	port, err := freePort()
	if err != nil {
		return w, err
	}
	s, err := d.Run(ctx, "warm", []string{"--network", "host", "--idle", "never"}, "python3", "-c", wokenServer, port, "0")
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, s.Remove(context.WithoutCancel(ctx))) }()
	direct := net.JoinHostPort("127.0.0.1", port)
	if err := listens(ctx, direct); err != nil {
		return w, err
	}
	other, end, err := g.ingress(ctx)
	if err != nil {
		return w, err
	}
	defer end()
	host := port + "--warm.default.localhost"
	var ways []*warmWay
	for _, way := range []struct{ name, address string }{{"direct", direct}, {"`up --http`", g.address}, {"`diapause ingress`", other}} {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", way.address)
		if err != nil {
			return w, err
		}
		defer c.Close()
		ways = append(ways, &warmWay{name: way.name, host: host, conn: c, in: bufio.NewReaderSize(c, 1<<20)})
	}
	for turn := range requests/warmTurn + 1 {
		for _, way := range ways {
			for range warmTurn {
				if err := way.ask(g.token, turn > 0); err != nil {
					return w, fmt.Errorf("%s: %w", way.name, err)
				}
			}
		}
	}
	for _, way := range ways {
		rate, err := way.down(g.token)
		if err != nil {
			return w, fmt.Errorf("%s: %w", way.name, err)
		}
		w.Ways = append(w.Ways, WarmWay{way.name, nth(way.took, 50), nth(way.took, 99), rate})
	}
	return w, nil
}

// listens waits until something takes connections at an address.
func listens(ctx context.Context, address string) error {
	return eventually(ctx, func() (bool, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil, err
	})
}

// ingress runs `diapause ingress`.
func (g *gate) ingress(ctx context.Context) (address string, end func(), err error) {
	r := &relay{}
	cmd := exec.CommandContext(ctx, g.binary, "--data", g.data, "ingress", "--listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := r.start(cmd); err != nil {
		return "", nil, err
	}
	end = func() { _ = r.close() } // killed
	line, err := firstLine(out)
	i := strings.LastIndexByte(line, ':')
	if err != nil || i < 0 {
		end()
		return "", nil, fmt.Errorf("ingress says %q: %w", line, err)
	}
	return "127.0.0.1" + strings.TrimRight(line[i:], "/\n "), end, nil
}

func (w *warmWay) ask(token string, counts bool) error {
	began := time.Now()
	if _, err := w.get("/", token); err != nil {
		return err
	}
	if counts {
		w.took = append(w.took, time.Since(began))
	}
	return nil
}

func (w *warmWay) get(path, token string) (n int64, err error) {
	if err := w.conn.SetDeadline(time.Now().Add(transferLimit)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(w.conn, "GET %s HTTP/1.1\r\nHost: %s\r\nDiapause-Token: %s\r\nAccept: application/json\r\n\r\n", path, w.host, token); err != nil {
		return 0, err
	}
	r, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return 0, err
	}
	if n, err = io.Copy(io.Discard, r.Body); err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer is %s", r.Status)
	}
	return n, err
}

func (w *warmWay) down(token string) (rate float64, err error) {
	began := time.Now()
	n, err := w.get(fmt.Sprintf("/down/%d", warmDown), token)
	return float64(n) / 1e6 / time.Since(began).Seconds(), err
}

const wakePreface = `# First requests

Written by ` + "`go run ./e2e/bench/cmd -only wake`" + `; don't edit.

- commit: %s
- machine: %s
- at: %s; load average before the run: %s

Each session is suspended, and then asked for over HTTP through the gateway of ` + "`diapause up`" + `, by a client on this machine with
a token: again and again, two sessions at a time. The answer comes from a server in python3, which has counted all requests.
Cells are the p50 and the p99 in milliseconds. The stages are those of the answer's header ` + "`Server-Timing`" + `: until the caller
is known to be allowed, until a host is at work to resume the session, until it runs, until there is a connection to its
port, and until the answer begins.

| memory | sessions | requests | failed | authorise | ask | resume | connect | answer | first byte |
| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |
`

// Table makes the document; load is what the machine did besides.
func (w Wakes) Table(ctx context.Context, load string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, wakePreface, local.Commit(ctx), local.Machine(), time.Now().UTC().Format(time.RFC3339), load)
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	cell := func(all []time.Duration) { fmt.Fprintf(&b, " %.1f, %.1f |", ms(nth(all, 50)), ms(nth(all, 99))) }
	for _, l := range w.Loads {
		size := fmt.Sprintf("%d MB", l.MB)
		if l.MB == 0 {
			size = "small"
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d |", size, l.Sessions, l.Requests, l.Failed)
		for _, stage := range ingress.Stages() {
			cell(l.Stages[stage])
		}
		cell(l.All)
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, `
## Requests to a session that runs

%d requests on one connection for each way, in turns, and one download of %d MiB. The session has its host's network, so that
there is a direct way to its port.

| way | p50, ms | beside direct | p99, ms | MB/s |
| --- | --: | --: | --: | --: |
`, w.Warm.Requests, warmDown)
	for _, way := range w.Warm.Ways {
		fmt.Fprintf(&b, "| %s | %.3f | %+.3f | %.3f | %.0f |\n", way.Way, ms(way.P50), ms(way.P50-w.Warm.Ways[0].P50), ms(way.P99), way.Down)
	}
	return b.Bytes()
}
