package permissions

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/services/natsconfig"
)

// copied puts a user's file of credentials into a directory of its own, without the
// certificate.
func (f fleet) copied(user string) string {
	f.t.Helper()
	seed, err := os.ReadFile(f.creds(user))
	f.must(err)
	file := filepath.Join(f.t.TempDir(), user+".nk")
	f.must(os.WriteFile(file, seed, 0o600))
	return file
}

// here dials the server under any address.
type here struct{ at string }

func (h here) Dial(network, _ string) (net.Conn, error) { return net.Dial(network, h.at) }

// A server that can't be trusted is refused at once, and what to do is said.
func TestUntrusted(t *testing.T) {
	f := newFleet(t)
	other, err := natsconfig.Write(natsconfig.Options{Dir: t.TempDir(), StoreDir: t.TempDir(), Listen: "127.0.0.1:0", DNSNames: []string{"localhost"}})
	f.must(err)
	nkey, err := nats.NkeyOptionFromSeed(f.creds("client"))
	f.must(err)
	var client nats.Options
	f.must(nkey(&client))
	plain, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, Nkeys: []*server.NkeyUser{{Nkey: client.Nkey}}})
	f.must(err)
	plain.Start()
	t.Cleanup(func() { plain.Shutdown(); plain.WaitForShutdown() })
	if !plain.ReadyForConnections(patience) {
		t.Fatal("the NATS server doesn't start")
	}
	for name, c := range map[string]struct {
		url, creds, want string
		opts             []nats.Option
	}{
		"no certificate beside the credentials": {f.url, f.copied("client"), "put ca.pem", nil},
		"that of another server":                {f.url, other.Creds[0], "isn't of the authority that made its certificate", nil},
		"no credentials at all":                 {f.url, "", "put ca.pem", nil},
		"another name":                          {"tls://elsewhere.example:4222", f.creds("client"), "--server-name", []nats.Option{nats.SetCustomDialer(here{strings.TrimPrefix(f.url, "tls://")})}},
		"a server without TLS":                  {plain.ClientURL(), f.creds("client"), "it speaks no TLS, which", nil},
		"a server without TLS that should have": {strings.Replace(plain.ClientURL(), "nats://", "tls://", 1), "", "use nats://", nil},
	} {
		nc, err := natsconn.Connect(t.Context(), c.url, c.creds, "test", c.opts...)
		if err == nil {
			nc.Close()
		}
		if !errors.Is(err, natsconn.ErrUntrusted) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want something of %q", name, err, c.want)
		}
		client, err := events.Connect(events.Options{URL: c.url, Creds: c.creds, NATS: c.opts})
		if err == nil {
			client.Close()
		}
		if !errors.Is(err, natsconn.ErrUntrusted) {
			t.Errorf("%s: a service is told %v", name, err)
		}
	}
}

// Parts and verbs that are run as someone else end at once, and say as whom they have to
// be run.
func TestWrongUser(t *testing.T) {
	f := newFleet(t)
	program := f.program()
	data := filepath.Join(t.TempDir(), "data")
	f.must(os.Mkdir(data, 0o700))
	f.must(os.WriteFile(filepath.Join(data, "host"), []byte("h1\n"), 0o600))
	_, stranger, _ := strings.Cut(f.creds("client"), f.dir)
	stranger = filepath.Join(t.TempDir(), filepath.Base(stranger))
	other, err := natsconfig.Write(natsconfig.Options{Dir: t.TempDir(), StoreDir: t.TempDir(), Listen: "127.0.0.1:0", DNSNames: []string{"localhost"}})
	f.must(err)
	copyFile(t, filepath.Join(filepath.Dir(other.Creds[0]), "client.nk"), stranger)
	copyFile(t, filepath.Join(f.dir, "creds", natsconn.AuthorityFile), filepath.Join(filepath.Dir(stranger), natsconn.AuthorityFile))
	hosts := " --docker none --store dir://" + t.TempDir() + " --nats " + f.url
	const forbidden = "forbids what this part has to do: "
	for _, c := range []struct{ args, creds, want string }{
		{"scheduler --nats " + f.url, f.creds("client"), forbidden + "a scheduler needs the NATS user scheduler, which"},
		{"scheduler --nats " + f.url, f.creds("publisher"), forbidden + "a scheduler needs the NATS user scheduler, which"},
		{"worker" + hosts, f.creds("worker-h2"), forbidden + "a worker needs the NATS user worker-h1, which"},
		{"worker" + hosts, f.creds("scheduler"), forbidden + "a worker needs the NATS user worker-h1, which"},
		{"up" + hosts, f.creds("worker-h1"), forbidden + "`diapause up` needs the NATS user system, which"},
		{"scheduler --nats " + f.url, stranger, "refuses the credentials of " + stranger},
		{"worker" + hosts, f.copied("worker-h1"), "put ca.pem"},
		{"ls --url " + f.url, f.creds("publisher"), "doesn't let this client ask"},
		{"run --name x --url " + f.url + " -- true", f.creds("reader"), "doesn't let this client ask"},
		{"ls --url " + f.url, stranger, "refuses the credentials of " + stranger},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, program, append([]string{"--data", data, "--creds", c.creds}, strings.Fields(c.args)...)...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		cancel()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s as %s: %v, %s\nwant something of %q", c.args, filepath.Base(c.creds), err, said.String(), c.want)
		}
	}
}

func (f fleet) program() string {
	f.t.Helper()
	program, err := stack.Build(f.t.TempDir())
	f.must(err)
	return program
}

// The scheduler that decides says so, and the next one when it takes over.
func TestTakeoverIsSaid(t *testing.T) {
	f := newFleet(t)
	program := f.program()
	begin := func(name string) (*exec.Cmd, *bufio.Scanner) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, program, "scheduler", "--nats", f.url, "--creds", f.creds("scheduler"), "--name", name)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		f.must(err)
		f.must(cmd.Start())
		t.Cleanup(func() { cancel(); _ = cmd.Wait() }) // it has ended, or was killed
		return cmd, bufio.NewScanner(out)
	}
	says := func(out *bufio.Scanner, want string) {
		t.Helper()
		for out.Scan() {
			if strings.HasPrefix(out.Text(), want) {
				return
			}
		}
		t.Fatalf("it never says %q", want)
	}
	first, out := begin("one")
	says(out, "scheduler one decides from now on")
	_, out = begin("two")
	says(out, "ready: scheduler two")
	f.must(first.Process.Signal(os.Interrupt))
	says(out, "scheduler two decides from now on")
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
