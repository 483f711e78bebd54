package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Forwarding is how well one way to a port of a session carries.
type Forwarding struct {
	Way      string
	Down, Up float64       // from the session and to it, in megabytes a second
	First    time.Duration // from a new connection to the first byte of its answer
}

// Forwardings are all ways on one machine, as medians of rounds.
type Forwardings struct {
	MB, Rounds int
	Ways       []Forwarding
}

// asked is a server in a session. It answers a line with bytes, takes bytes, or says a word.
const asked = `
import socket, sys, threading
def serve(c):
    f = c.makefile("rb", 0)
    what, n = f.readline().split()
    if what == b"down":
        piece = bytes(1 << 20)
        for _ in range(int(n)): c.sendall(piece)
    elif what == b"up":
        taken, piece = 0, bytearray(1 << 20)
        while taken < int(n) << 20:
            k = c.recv_into(piece)
            if k == 0: break
            taken += k
        c.sendall(b"x")
    else:
        c.sendall(b"x")
    c.close()
l = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    c, _ = l.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
`

// firsts is how many connections are timed to their first byte.
const firsts = 21

// MeasureForward carries megabytes each way, so many times, over each of the ways.
func MeasureForward(ctx context.Context, mb, rounds int) (all Forwardings, err error) {
	dir, binary, err := scratch()
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all.MB, all.Rounds = mb, rounds
	for _, d := range []struct {
		name string
		ways []wayToPort
		args []string
	}{
		{"direct", []wayToPort{plainTCP, socatTCP(dir), socatTLS(dir), forwardOf(binary, "forward, directly", "go directly")}, []string{"--advertise", "127.0.0.1:0"}},
		{"nats", []wayToPort{forwardOf(binary, "forward, through NATS", "go through NATS")}, nil},
	} {
		if err := all.measure(ctx, binary, filepath.Join(dir, d.name), d.ways, d.args); err != nil {
			return all, err
		}
	}
	return all, nil
}

// measure starts a daemon and a session with the server, and measures some ways to it.
func (all *Forwardings) measure(ctx context.Context, binary, data string, ways []wayToPort, args []string) (err error) {
	d, err := local.StartWith(ctx, binary, data, nil, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Stop(context.WithoutCancel(ctx))) }()
	port, err := freePort()
	if err != nil {
		return err
	}
	s, err := d.Run(ctx, "asked", []string{"--network", "host", "--idle", "never"}, "python3", "-c", asked, port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Remove(context.WithoutCancel(ctx))) }()
	if err := answers(ctx, net.JoinHostPort("127.0.0.1", port)); err != nil {
		return err
	}
	for _, w := range ways {
		f, err := all.over(ctx, w, d.Data(), port)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		all.Ways = append(all.Ways, f)
	}
	return nil
}

// over measures one way.
func (all *Forwardings) over(ctx context.Context, w wayToPort, data, port string) (f Forwarding, err error) {
	f.Way = w.name
	r, err := w.open(ctx, data, port)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := answers(ctx, r.address); err != nil {
		return f, err
	}
	var down, up, first []time.Duration
	for range all.Rounds {
		d, err := took(r.address, "down", all.MB)
		if err != nil {
			return f, err
		}
		u, err := took(r.address, "up", all.MB)
		if err != nil {
			return f, err
		}
		down, up = append(down, d), append(up, u)
	}
	for range firsts {
		d, err := took(r.address, "word", 0)
		if err != nil {
			return f, err
		}
		first = append(first, d)
	}
	rate := func(d time.Duration) float64 { return float64(all.MB<<20) / 1e6 / d.Seconds() }
	f.Down, f.Up, f.First = rate(halfway(down)), rate(halfway(up)), halfway(first)
	return f, r.check()
}

func halfway(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// transferLimit bounds one connection.
const transferLimit = 10 * time.Minute

// took asks the server at an address for one thing, and gives how long that took.
func took(address, what string, mb int) (time.Duration, error) {
	began := time.Now()
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.SetDeadline(began.Add(transferLimit)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintln(c, what, mb); err != nil {
		return 0, err
	}
	want := int64(1)
	switch what {
	case "down":
		want = int64(mb) << 20
	case "up":
		piece := make([]byte, 1<<20)
		for range mb {
			if _, err := c.Write(piece); err != nil {
				return 0, err
			}
		}
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 1<<20))
	if err == nil && n != want {
		err = fmt.Errorf("answer has %d bytes, want %d", n, want)
	}
	return time.Since(began), err
}

// answers waits until the server is reached at an address.
func answers(ctx context.Context, address string) error {
	for {
		_, err := took(address, "word", 0)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("reach %s: %w", address, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// firstLine reads what a program says first.
func firstLine(out io.Reader) (string, error) { return bufio.NewReader(out).ReadString('\n') }

const forwardPreface = `# Forwarded ports

Written by ` + "`make bench`" + `; don't edit.

- commit: %s
- machine: %s
- at: %s; load average before the run: %s

A server in a session (python3, ` + "`--network host`" + `) sends %d MiB over a connection, or takes them, %d times; the rates are
medians. The first byte is from a new connection to the answer, the median of %d. All ends are on this machine,
so its processors do the work of client, host, session and, with NATS, of the server: on a network of 1 Gb/s (118 MB/s)
that is the limit where a rate here is above it.

| way | from the session, MB/s | to it, MB/s | first byte, ms |
| --- | --: | --: | --: |
`

// Table makes the document; load is what the machine did besides.
func (all Forwardings) Table(ctx context.Context, load string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, forwardPreface, local.Commit(ctx), local.Machine(), time.Now().UTC().Format(time.RFC3339), load, all.MB, all.Rounds, firsts)
	for _, f := range all.Ways {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.1f |\n", f.Way, f.Down, f.Up, f.First.Seconds()*1000)
	}
	b.WriteString(`
A direct connection is encrypted from end to end. One through NATS is where the connections to the server are: here that of
the client, while the host's is within the daemon. "socat" is one relay, "socat, TLS" two of them, as between two machines, with
buffers of 64 KiB. The first byte of ` + "`forward`" + ` includes asking for the session to run.
`)
	return b.Bytes()
}
