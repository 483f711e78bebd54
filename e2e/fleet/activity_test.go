package fleet

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/natsconfig"
)

// secured starts a NATS server as nats-config sets it up for one host: it wants TLS and credentials. It gives its address
// and the directory of credentials.
func secured(t *testing.T, id schemas.HostID) (url, creds string) {
	t.Helper()
	dir, err := os.MkdirTemp(built.dir, "nats-")
	if err != nil {
		t.Fatal(err)
	}
	w, err := natsconfig.Write(natsconfig.Options{
		Fleet: natsconfig.Fleet{Names: stream.NamesWith(""), Hosts: []schemas.HostID{id}},
		Dir:   dir, StoreDir: filepath.Join(dir, "streams"), Listen: "127.0.0.1:0", DNSNames: []string{"localhost"},
	})
	if err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog, o.Port = true, true, server.RANDOM_PORT
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(within) {
		t.Fatal("the NATS server doesn't start")
	}
	return "tls://" + net.JoinHostPort("localhost", strconv.Itoa(ns.Addr().(*net.TCPAddr).Port)), filepath.Join(dir, "creds")
}

// What sessions publish at their activity ports comes to a server that wants TLS and credentials, which they don't have: a
// session is busy and has checkpoints made, for itself alone.
func TestActivityPortWithTLS(t *testing.T) {
	t.Parallel()
	const id = "h1"
	url, creds := secured(t, id)
	h := newHosts(t, "--nats", url, "--creds", filepath.Join(creds, "system.nk"))
	w := h.add("a")
	w.url, w.args = url, []string{"--host-id", id, "--creds", filepath.Join(creds, "worker-"+id+".nk")}
	w.start()
	script := filepath.Join(h.dir, "activity.sh")
	text, err := os.ReadFile("../../events/examples/shell/activity.sh")
	if err == nil {
		err = os.WriteFile(script, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	// nats.go in the session, without TLS and credentials.
	end := filepath.Join("/tmp", "end")
	busy := []string{built.program, "busy", "--", "sh", "-c", "until [ -e " + end + " ]; do sleep 1; done"}
	h.must(append([]string{"run", "--name", "s", "--host", id, "--idle", "never", "--", "sh", "-c", `"$@"; sleep 100000`, "sh"}, busy...)...)
	h.must("run", "--name", "other", "--host", id, "--idle", "never", "--", "sleep", "100000")
	h.explains("s", "(from inside the session)")

	says := func(what ...string) (code int, out string) {
		r := h.up.Do(append([]string{"exec", "s", "--", "bash", script}, what...)...)
		return r.Code, r.Out + r.Err
	}
	for _, what := range []string{"other.input", "other.hold.x", "s2.input"} {
		if code, out := says(what); code == 0 || !strings.Contains(out, "Permissions Violation") {
			t.Errorf("for another session it says %s: exit %d, %s", what, code, out)
		}
	}
	if out := h.must("explain", "other"); strings.Contains(out, "inside the session") {
		t.Errorf("what a session says is heard of another:\n%s", out)
	}
	h.must("policy", "set", "session:s", "checkpoints=run_boundaries")
	if code, out := says("s.agent.run_start", `{"run_id":"r-17"}`); code != 0 {
		t.Fatalf("it says that a run starts: exit %d, %s", code, out)
	}
	eventually(t, "a checkpoint is made of the run", func() error {
		var all []schemas.SnapshotView
		if err := json.Unmarshal([]byte(h.must("snapshots", "--json", "s")), &all); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.RunID == "r-17" && s.Trigger == "run_start" {
				return nil
			}
		}
		return fmt.Errorf("there are %+v", all)
	})

	w.end(syscall.SIGTERM)
	w.start()
	eventually(t, "it is heard when the worker is back", func() error {
		if code, out := says("s.hold.later", `{"ttl":"10m","reason":"after a restart"}`); code != 0 {
			return fmt.Errorf("exit %d, %s", code, out)
		}
		return nil
	})
	h.explains("s", "after a restart")
	h.must("suspend", "s")
	h.must("ensure", "s")
	if code, out := says("s.hold.later", `{"released":true}`); code != 0 {
		t.Errorf("after a resume: exit %d, %s", code, out)
	}

	// As long as it is busy it isn't idle.
	h.must("policy", "set", "session:s", "grace=1s", "awake=0s")
	h.must("policy", "set", "session:other", "grace=1s", "awake=0s")
	h.awaitState("other", schemas.Suspended, w)
	if v := h.view("s"); v.State != schemas.Running {
		t.Errorf("it is %s though it is busy: %s", v.State, v.LastTransition.Reason)
	}
	h.must("exec", "s", "--", "touch", end)
	h.awaitState("s", schemas.Suspended, w)
	h.audit()
}

// explains waits until what explain says of a session has a text.
func (h *hosts) explains(name, text string) {
	h.t.Helper()
	eventually(h.t, "explain says "+text, func() error {
		if out := h.must("explain", name); !strings.Contains(out, text) {
			return fmt.Errorf("it says\n%s", out)
		}
		return nil
	})
}
