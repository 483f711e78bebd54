package systemd

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events/keykv"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/services/keys"
	"github.com/diapause/diapause/services/natsconfig"
	"github.com/diapause/diapause/workers/thread/threadtest"
)

// dynamic is a user of those that systemd takes for DynamicUser.
const dynamic = 61200

// fleet is a NATS server as nats-config has it, and a machine's /etc/diapause.
type fleet struct {
	t       *testing.T
	dir     string
	program string
	js      jetstream.JetStream
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: must[string](t)(stack.Dir())}
	t.Cleanup(func() { os.RemoveAll(f.dir) })
	f.program = must[string](t)(stack.Build(f.dir))
	w := must[natsconfig.Written](t)(natsconfig.Write(natsconfig.Options{
		Fleet: natsconfig.Fleet{Names: stream.NamesWith("")}, Dir: f.path("nats"), StoreDir: f.path("streams"), Listen: "127.0.0.1:0", DNSNames: []string{"localhost"},
	}))
	o := must[*server.Options](t)(server.ProcessConfigFile(w.Config))
	o.NoSigs, o.NoLog, o.Port = true, true, server.RANDOM_PORT
	s := must[*server.Server](t)(server.NewServer(o))
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(within) {
		t.Fatal("the NATS server doesn't start")
	}
	url := "tls://localhost:" + strconv.Itoa(s.Addr().(*net.TCPAddr).Port)
	nc, err := natsconn.Connect(t.Context(), url, f.path("nats/creds/system.nk"), "system")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	f.js = must[jetstream.JetStream](t)(jetstream.New(nc))
	if err := stream.Ensure(t.Context(), f.js, stream.NamesWith(""), 1); err != nil {
		t.Fatal(err)
	}
	f.write("etc/scheduler.env", "DIAPAUSE_URL="+url+"\n")
	f.write("etc/api.env", "DIAPAUSE_URL="+url+"\nDIAPAUSE_STORE=dir://"+f.path("images")+"\n")
	for _, name := range []string{"scheduler.nk", "api.nk", "ca.pem"} {
		f.copy(name)
	}
	return f
}

func (f *fleet) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fleet) write(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// copy puts what nats-config has made into /etc/diapause.
func (f *fleet) copy(name string) {
	f.t.Helper()
	f.write("etc/"+name, string(must[[]byte](f.t)(os.ReadFile(f.path("nats/creds/"+name)))))
}

// unit is what systemd reads of one: all values of each setting.
type unit map[string][]string

func readUnit(t *testing.T, name string) unit {
	t.Helper()
	u := unit{}
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile(filepath.Join(units, name))))) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			u[key] = append(u[key], value)
		}
	}
	return u
}

// credentials makes the directory that systemd makes of LoadCredential and SetCredential: read-only, for the
// service's user alone. A file that isn't there has the value that is set for it.
func (f *fleet) credentials(u unit) (dir string) {
	f.t.Helper()
	dir = must[string](f.t)(os.MkdirTemp(f.dir, "credentials-"))
	set := map[string]string{}
	for _, s := range u["SetCredential"] {
		id, text, _ := strings.Cut(s, ":")
		set[id] = text
	}
	for _, l := range u["LoadCredential"] {
		id, from, _ := strings.Cut(l, ":")
		text, err := os.ReadFile(strings.Replace(from, "/etc/diapause", f.path("etc"), 1))
		if instead, ok := set[id]; os.IsNotExist(err) && ok {
			text, err = []byte(instead), nil
		}
		if err != nil {
			f.t.Fatalf("systemd wouldn't start the unit: %v", err)
		}
		file := filepath.Join(dir, id)
		if err := os.WriteFile(file, text, 0o400); err != nil {
			f.t.Fatal(err)
		}
		if err := os.Chown(file, dynamic, dynamic); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := os.Chown(dir, dynamic, dynamic); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		f.t.Fatal(err)
	}
	return dir
}

// start runs what a unit starts, as the unit says, and waits until it is ready. end stops it as systemd does,
// and gives what it has printed.
func (f *fleet) start(u unit) (end func() string) {
	f.t.Helper()
	dir := f.credentials(u)
	line := strings.NewReplacer(program, f.program, "${CREDENTIALS_DIRECTORY}", dir).Replace(u["ExecStart"][0])
	args := strings.Fields(line)
	notify := notified(f.t, f.dir)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "CREDENTIALS_DIRECTORY=" + dir, "NOTIFY_SOCKET=" + notify.path, "WATCHDOG_USEC=300000"}
	for _, file := range u["EnvironmentFile"] {
		text := must[[]byte](f.t)(os.ReadFile(strings.Replace(file, "/etc/diapause", f.path("etc"), 1)))
		cmd.Env = append(cmd.Env, strings.Fields(string(text))...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: dynamic, Gid: dynamic}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := threadtest.Start(cmd); err != nil {
		f.t.Fatal(err)
	}
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = cmd.Wait()
	}()
	kill := func() string {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		return out.String()
	}
	f.t.Cleanup(func() { kill() })
	notify.hear("READY=1", ended, kill)
	notify.hear("WATCHDOG=1", ended, kill)
	return func() string {
		f.t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			f.t.Error(err)
		}
		if <-ended; failed != nil {
			f.t.Errorf("%s, asked to end: %v\n%s", args[1], failed, out.String())
		}
		return out.String()
	}
}

// writers are the keys that sign segments of the log.
func (f *fleet) writers() (n int) {
	f.t.Helper()
	store := must[*keykv.Store](f.t)(keykv.Open(f.t.Context(), f.js, stream.NamesWith("")))
	all, err := store.Get(f.t.Context(), "")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, w := range all.Writers {
		if w.Host == keys.LogWriter {
			n++
		}
	}
	return n
}

// TestParts starts scheduler and api as their units say: as a user with no rights, with the credentials that systemd
// gives it and none of the environment but the unit's file. An api whose machine hasn't got the keys of the log
// works without them, and one that has them signs with them.
func TestParts(t *testing.T) {
	f := newFleet(t)
	if err := os.Mkdir(f.path("images"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(f.path("images"), dynamic, dynamic); err != nil {
		t.Fatal(err)
	}
	schedules := f.start(readUnit(t, "diapause-scheduler.service"))
	api := readUnit(t, "diapause-api.service")
	if out := f.start(api)(); f.writers() != 0 {
		t.Errorf("without log.key %d keys sign the log:\n%s", f.writers(), out)
	}
	f.copy("log.txt")
	f.copy("log.key")
	if out := f.start(api)(); f.writers() != 1 {
		t.Errorf("with log.key %d keys sign the log:\n%s", f.writers(), out)
	}
	schedules()
}
