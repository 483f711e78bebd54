package loopback

import (
	"crypto/rand"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// marks has a random text for each thing that is looked for.
type marks map[string]string

func (m marks) of(name string) string {
	if m[name] == "" {
		m[name] = "mark" + rand.Text()
	}
	return m[name]
}

// TestNothingIsReadable plays a session's life beside a packet socket.
func TestNothingIsReadable(t *testing.T) {
	s, dir := stack.Fresh(t)
	ownNetwork(t)
	ears := sniff(t)
	if err := s.Up("--docker", "none", "--http", "127.0.0.1:0", "--tls", "self"); err != nil {
		t.Fatal(err)
	}
	m := marks{}
	live(t, s, dir, m)
	overHTTPS(t, s, m)
	credentials(t, s, m)
	heardAll := ears.end(t)
	// What is published without credentials is plain: that the sniffer heard it proves that it hears.
	plain := marks{"activity without credentials": m["activity without credentials"]}
	delete(m, "activity without credentials")
	if len(found(heardAll, plain)) == 0 {
		t.Fatal("the sniffer heard nothing")
	}
	if names := found(heardAll, m); len(names) > 0 {
		t.Errorf("of %d markers %d crossed the loopback device in the clear: %s", len(m), len(names), strings.Join(names, ", "))
	}
}

// live has a session do all that carries content.
func live(t *testing.T, s *stack.Stack, dir string, m marks) {
	t.Helper()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte(m.of("file")), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "echo " + m.of("output") + "; read x; sleep 100000"
	for _, args := range [][]string{
		{"run", "--name", "work", "--tty", "--idle", "never", "--env", "KEY=" + m.of("environment"), "--on-resume", "true " + m.of("hook"), "--", "sh", "-c", script, m.of("argument")},
		{"exec", "work", "--", "echo", m.of("argument of a command")},
		{"exec", "work", "--", "sh", "-c", "printf output-; printf %s-of-a-command " + m.of("part")},
		{"cp", file, "work:/tmp/file"}, {"cp", "work:/tmp/file", file + ".back"},
		{"hold", "work", "--for", "1h", "--reason", m.of("reason")},
		{"checkpoint", "work", "--description", m.of("description")},
		{"suspend", "work"}, {"ensure", "work"}, {"logs", "work"}, {"explain", "work"}, {"ls"}, {"show", "--json", "work"}, {"history", "work"},
	} {
		if out, err := s.Must(args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	attach := exec.Command(s.Program, "--data", s.Data, "attach", "work")
	attach.Stdin = strings.NewReader(m.of("typed") + "\n")
	if out, err := attach.CombinedOutput(); err != nil {
		t.Fatalf("attach: %v: %s", err, out)
	}
	back, err := os.ReadFile(file + ".back")
	if err != nil || string(back) != m["file"] {
		t.Fatalf("the file came back as %q, %v", back, err)
	}
	publish(t, s, m)
}

// httpAPI is where the daemon says that it answers HTTP.
var httpAPI = regexp.MustCompile(`(?m)^HTTP API: (https://[^\s,]+)`)

// ask has a process of its own ask the HTTP API, since this one's other threads are in another network.
const ask = `import json, ssl, sys, urllib.request
url, trust = sys.argv[1:]
token, command = sys.stdin.read().splitlines()
q = urllib.request.Request(url + "/sessions/work/exec", json.dumps({"command": ["echo", command]}).encode(),
    {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(q, timeout=60, context=ssl.create_default_context(cafile=trust)))["stdout"])`

// overHTTPS has a command run over the HTTP API.
func overHTTPS(t *testing.T, s *stack.Stack, m marks) {
	t.Helper()
	at := httpAPI.FindStringSubmatch(s.Log())
	if at == nil {
		t.Fatal("the daemon doesn't say where its HTTP API is")
	}
	token, err := s.Must("token", "create", "--role", "owner")
	if err != nil {
		t.Fatal(err)
	}
	m["token"] = strings.TrimSpace(token)
	python := exec.Command("python3", "-c", ask, at[1], filepath.Join(s.Data, "https", "trust.pem"))
	python.Stdin = strings.NewReader(m["token"] + "\n" + m.of("argument over HTTPS") + "\n")
	out, err := python.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != m["argument over HTTPS"] {
		t.Fatalf("the HTTP API answers %q, %v", out, err)
	}
}

// publish says without credentials that the session is used.
func publish(t *testing.T, s *stack.Stack, m marks) {
	t.Helper()
	text, err := json.Marshal(schemas.Activity{Reason: m.of("activity without credentials")})
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	// A process of its own, since this one's other threads are in another network.
	pub := exec.Command("bash", "-c", `exec 3<>/dev/tcp/$0/$1; read -r info <&3
printf 'CONNECT {"verbose":false}\r\nPUB diapause.v1.activity.default.work.input %d\r\n%s\r\nPING\r\n' ${#2} "$2" >&3
while read -r line <&3; do case $line in PONG*) exit 0;; -ERR*) echo "$line"; exit 1;; esac; done; exit 1`,
		at.Hostname(), at.Port(), string(text))
	if out, err := pub.CombinedOutput(); err != nil {
		t.Fatalf("publish activity: %v: %s", err, out)
	}
}

// credentials adds the seeds of users to what must not be heard.
func credentials(t *testing.T, s *stack.Stack, m marks) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Data, "creds", "*.nk"))
	if err != nil || len(files) < 2 {
		t.Fatalf("the files of credentials are %v, %v", files, err)
	}
	for _, f := range files {
		seed, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		m[filepath.Base(f)] = strings.TrimSpace(string(seed))
	}
}
