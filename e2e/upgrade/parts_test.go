package upgrade

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/network/networktest"
)

// fleet is a fleet on a NATS server of its own: an up, a scheduler beside it, and two workers, each
// in a network of its own.
type fleet struct {
	t      *testing.T
	dir    string
	client atomic.Value // the program of clients, a string
	nats   natsServer

	up, scheduler, a, b *part
}

// term is the lease of each host: it is waited for with DIAPAUSE_LONG=1 alone.
var term = map[bool]string{false: "30s", true: "15s"}[long]

var (
	readyHost      = regexp.MustCompile(`(?m)^ready: host `)
	readyScheduler = regexp.MustCompile(`(?m)^ready: scheduler `)
)

// newFleet starts a fleet of the older program.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	at, err := os.MkdirTemp(dir, "fleet-")
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, dir: at, nats: natsServer{dir: filepath.Join(at, "nats")}}
	f.up, f.a, f.b = f.host("up", "up"), f.host("worker", "a"), f.host("worker", "b")
	f.scheduler = &part{fleet: f, verb: "scheduler", name: "scheduler", ready: readyScheduler}
	f.a.apart, f.b.apart = networktest.New(t), networktest.New(t)
	f.client.Store(older)
	t.Cleanup(f.close) // before their networks are taken from the workers
	f.configure(older)
	if err := os.Mkdir(f.path("images"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.nats.start(); err != nil {
		t.Fatal(err)
	}
	for _, p := range f.parts() {
		f.begin(p)
	}
	return f
}

func (f *fleet) path(name string) string { return filepath.Join(f.dir, name) }

// host makes a part that is a host, whose id is in its data directory as if it had started before: its NATS
// user has it in its name.
func (f *fleet) host(verb, name string) *part {
	f.t.Helper()
	p := &part{fleet: f, verb: verb, name: name, ready: readyHost}
	p.host = schemas.HostID(name + "-" + strings.ToLower(rand.Text()[:8])) // its cgroups are the machine's
	if err := os.Mkdir(f.path(name), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.path(name), "host"), []byte(string(p.host)+"\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return p
}

// begin starts a part of the older program.
func (f *fleet) begin(p *part) {
	f.t.Helper()
	p.program = older
	user, at := p.verb, "127.0.0.1"
	switch p {
	case f.up:
		user = "system"
	case f.a, f.b:
		p.apart.Route(f.t)
		user, at = "worker-"+string(p.host), p.apart.Host.String()
	}
	p.args = []string{"--nats", f.nats.url(at), "--creds", f.nats.creds(user), "-v"}
	if p.host != "" {
		p.args = append(p.args, "--data", f.path(p.name), "--store", "dir://"+f.path("images"), "--lease", term, "--docker", "none")
	}
	p.start()
}

func (f *fleet) hosts() []*part { return []*part{f.up, f.a, f.b} }
func (f *fleet) parts() []*part { return append(f.hosts(), f.scheduler) }

// configure writes the configuration of NATS with a program.
func (f *fleet) configure(program string) {
	f.t.Helper()
	err := f.nats.configure(program, []schemas.HostID{f.a.host, f.b.host}, []string{"127.0.0.1", f.a.apart.Host.String(), f.b.apart.Host.String()})
	if err != nil {
		f.t.Fatal(err)
	}
}

// do runs a verb of a client.
func (f *fleet) do(args ...string) stack.Result {
	s := stack.New(f.client.Load().(string), f.path("client"))
	s.Env = append(os.Environ(), "DIAPAUSE_URL="+f.nats.url("127.0.0.1"), "DIAPAUSE_CREDS="+f.nats.creds("client"))
	return s.Do(args...)
}

func (f *fleet) must(args ...string) string {
	f.t.Helper()
	r := f.do(args...)
	if r.Code != 0 {
		f.t.Fatalf("diapause %s: exit status %d: %s", strings.Join(args, " "), r.Code, r.Err)
	}
	return r.Out
}

// views lists all sessions.
func (f *fleet) views() (all []schemas.View) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.must("ls", "--json")), &all); err != nil {
		f.t.Fatalf("read the list of sessions: %v", err)
	}
	return all
}

func (f *fleet) view(name string) (v schemas.View) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.must("show", "--json", name)), &v); err != nil {
		f.t.Fatalf("read session %s: %v", name, err)
	}
	return v
}

// reconfigure has NATS take the configuration of the newer program.
func (f *fleet) reconfigure() {
	f.t.Helper()
	f.configure(newer)
	if err := f.nats.reload(); err != nil {
		f.t.Fatal(err)
	}
}

// close removes all sessions, ends every part and looks for what is left.
func (f *fleet) close() {
	defer f.nats.stop()
	defer f.tell()
	for _, p := range f.parts() {
		if p.done != nil && !p.alive() {
			p.start()
		}
	}
	if f.up.alive() {
		for _, v := range f.views() {
			f.must("rm", "--yes", v.Name)
		}
	}
	for _, p := range f.parts() {
		if !p.alive() {
			continue
		}
		p.stop()
		if p.host == "" {
			continue
		}
		left := &stack.Stack{Program: p.program, Data: f.path(p.name), Host: string(p.host)}
		if err := left.Leftovers(); err != nil {
			f.t.Errorf("host %s: %v", p.host, err)
		}
	}
}

// tell prints what the parts printed, if the test has failed.
func (f *fleet) tell() {
	for _, p := range f.parts() {
		if f.t.Failed() {
			f.t.Logf("part %s (%s) printed:\n%s", p.name, p.program, p.log.String())
		}
	}
}

// until waits for ask to have no objection.
func until(t *testing.T, what string, ask func() error) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not after %s: %v", what, limit, err)
		}
	}
}

// replace has a part run the newer program.
func (f *fleet) replace(p *part) {
	f.t.Helper()
	f.t.Logf("part %s is replaced", p.name)
	p.stop()
	p.program = newer
	p.start()
}

// sound fails the test unless every session is well.
func (f *fleet) sound() {
	f.t.Helper()
	for _, v := range f.views() {
		if v.State == schemas.Failed {
			f.t.Errorf("session %s is %s: %s", v.Name, v.State, fmt.Sprint(v.Failure))
		}
	}
}
