package ingress

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// domain is one whose names a dev server doesn't know.
const domain = "apps.example.com"

// TestRealServers has servers and clients of others on both sides of `diapause ingress`, and of the gateway of `up`.
func TestRealServers(t *testing.T) {
	t.Parallel()
	s, _ := stack.Fresh(t)
	flags := []string{"--wake-timeout", "2m", "--domain", domain, "--host-header", "localhost:5173"}
	if err := s.Up(append([]string{"--docker", "none", "--http", "127.0.0.1:0"}, flags...)...); err != nil {
		t.Fatal(err)
	}
	t.Run("ingress", func(t *testing.T) { servers{s, ingress(t, s, flags...), "", "this machine"}.all(t) })
	t.Run("gateway", func(t *testing.T) { servers{s, gateway(t, s), "up-", "anyone at 127.0.0.1"}.all(t) })
}

// servers are those behind one way to them.
type servers struct {
	*stack.Stack
	*proxy
	prefix string // of their sessions' names
	by     string // who asks, as leases have it
}

func (w servers) all(t *testing.T) {
	t.Run("nginx", w.nginx)
	t.Run("grpc", w.overGRPC)
	t.Run("event stream", w.events)
	t.Run("vite", w.vite)
}

// host is where a port of a session of this way is, which anyone may reach by the gateway.
func (w servers) host(t *testing.T, name string, port string) string {
	t.Helper()
	must(t, w.Stack, "expose", name, port, "--public")
	return port + "--" + name + "." + domain
}

// gateway is that of up.
func gateway(t *testing.T, s *stack.Stack) *proxy {
	t.Helper()
	var at []string
	until(t, "the gateway listens", func() bool {
		at = gatewayAt.FindStringSubmatch(s.Log())
		return at != nil
	})
	return clientOf(t, &proxy{t: t, address: at[1]})
}

var gatewayAt = regexp.MustCompile(`(?m)^HTTP API: http://([^/]+)/`)

const nginxConf = `
daemon off;
user root;
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  server { listen 127.0.0.1:8080; root %s; }
}
`

// nginx is Debian's, with its master and its workers.
func (w servers) nginx(t *testing.T) {
	s, name := w.Stack, w.prefix+"nginx"
	site := t.TempDir()
	write(t, filepath.Join(site, "index.html"), "<h1>it works</h1>")
	write(t, filepath.Join(site, "nginx.conf"), fmt.Sprintf(nginxConf, site))
	must(t, s, "run", "--name", name, "--network", "private", "--idle", "never", "--", "/usr/sbin/nginx", "-c", filepath.Join(site, "nginx.conf"))
	host := w.host(t, name, "8080")
	for range 3 {
		w.want(http.MethodGet, host, "/", "Accept: text/css\n", nil, "<h1>it works</h1>")
		if status, _, text := w.ask(http.MethodGet, host, "/none", "", nil); status != http.StatusNotFound || !strings.Contains(text, "nginx") {
			t.Errorf("what it hasn't gives %d: %s", status, text)
		}
		suspend(t, s, name)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// serveGRPC is gRPC's own server, with its own service.
func serveGRPC() error {
	l, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	return s.Serve(l)
}

// overGRPC resumes a session by a call, and holds it by a stream.
func (w servers) overGRPC(t *testing.T) {
	s, name := w.Stack, w.prefix+"grpc"
	beginAs(t, s, "grpc", name, "--idle", "never")
	conn, err := grpc.NewClient("passthrough:///"+w.address, grpc.WithAuthority(w.host(t, name, "8080")), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, end := context.WithTimeout(t.Context(), limit)
	defer end()
	client := healthpb.NewHealthClient(conn)
	for range 3 {
		if got, err := client.Check(ctx, &healthpb.HealthCheckRequest{}); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Fatalf("it answers %v, %v", got, err)
		}
		suspend(t, s, name)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watch, err := client.Watch(watching, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("the stream gives %v, %v", got, err)
	}
	lease := "POST /grpc.health.v1.Health/Watch to port 8080 (fetch by " + w.by + ")"
	until(t, "the stream is a lease", func() bool { return strings.Contains(must(t, s, "explain", name), lease) })
	stop()
	until(t, "it is no more", func() bool { return !strings.Contains(must(t, s, "explain", name), "presence.ingress-") })
}

// events reads an event stream across a suspend. One that a page asks for again by itself resumes nothing.
func (w servers) events(t *testing.T) {
	s, name := w.Stack, w.prefix+"ticks"
	begin(t, s, name, "--idle", "never")
	host := w.host(t, name, "8080")
	stream := func() string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		answer, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		line, err := bufio.NewReader(answer.Body).ReadString('\n')
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("it gives %d: %q, %v", answer.StatusCode, line, err)
		}
		return strings.TrimSpace(line)
	}
	if got := stream(); got != "id: 1" {
		t.Errorf("it begins with %q", got)
	}
	suspend(t, s, name)
	again := "Accept: text/event-stream\nLast-Event-ID: 1\n"
	if status, _, text := w.ask(http.MethodGet, host, "/events", again, nil); status != http.StatusServiceUnavailable || state(t, s, name) != schemas.Suspended {
		t.Errorf("a page that comes back gets %d: %s", status, text)
	}
	if got := stream(); got == "id: 1" || !strings.HasPrefix(got, "id: ") {
		t.Errorf("after a suspend it goes on with %q", got)
	}
}

// watcher is a client of a WebSocket in Node: it prints what comes.
const watcher = `
const WebSocket = require('ws');
const [url, host, protocol] = process.argv.slice(1);
const ws = new WebSocket(url, protocol, { headers: { Host: host } });
ws.on('message', data => console.log(String(data)));
ws.on('error', e => { console.log(String(e)); process.exit(1); });
`

var viteToken = regexp.MustCompile(`wsToken = "([^"]+)"`)

// vite is a dev server that refuses names which it doesn't know, and tells of changes over its WebSocket, also after it was
// suspended.
func (w servers) vite(t *testing.T) {
	s, name := w.Stack, w.prefix+"vite"
	modules := filepath.Join(prefix(), "node", "ingress", "node_modules")
	site := t.TempDir()
	write(t, filepath.Join(site, "index.html"), `<script type="module" src="/main.js"></script>`)
	write(t, filepath.Join(site, "main.js"), `document.title = "first"`)
	must(t, s, "run", "--name", name, "--network", "private", "--idle", "never", "--cwd", site, "--env", "UV_USE_IO_URING=0", "--",
		"node", filepath.Join(modules, "vite", "bin", "vite.js"), "--host", "127.0.0.1", "--port", "5173", "--strictPort")
	host := w.host(t, name, "5173")
	if status, _, text := w.ask(http.MethodGet, host, "/main.js", "", nil); status != http.StatusOK || !strings.Contains(text, "first") {
		t.Fatalf("it gives %d: %s", status, text)
	}
	if status, _, text := ingress(t, s, "--domain", domain).ask(http.MethodGet, host, "/main.js", "", nil); status != http.StatusForbidden || !strings.Contains(text, "allowedHosts") {
		t.Errorf("with the client's own host it gives %d: %s", status, text)
	}
	suspend(t, s, name)
	_, _, script := w.ask(http.MethodGet, host, "/@vite/client", "", nil)
	token := viteToken.FindStringSubmatch(script)
	if token == nil {
		t.Fatalf("its client has no token: %.300s", script)
	}
	suspend(t, s, name)
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	cmd := exec.CommandContext(ctx, "node", "-e", watcher, "ws://"+w.address+"/?token="+token[1], host, "vite-hmr")
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	said, says := io.Pipe()
	cmd.Stdout = says
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		said.Close()
		_ = cmd.Wait() // it was killed
	}()
	lines := bufio.NewReader(said)
	read := func(want string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("%q never came: %v, %s", want, err, wrong.String())
			}
			if strings.Contains(line, want) {
				return
			}
		}
	}
	read(`"connected"`)
	until(t, "the WebSocket is a lease", func() bool {
		return strings.Contains(must(t, s, "explain", name), "GET / to port 5173 (websocket by "+w.by+")")
	})
	must(t, s, "exec", name, "--", "sh", "-c", `echo 'document.title = "second"' > main.js`)
	read(`"full-reload"`)
	if _, _, text := w.ask(http.MethodGet, host, "/main.js?t=1", "", nil); !strings.Contains(text, "second") {
		t.Errorf("after the change it gives %s", text)
	}
}

// prefix is where the setup has put what isn't part of the project.
func prefix() string {
	if p := os.Getenv("DIAPAUSE_PREFIX"); p != "" {
		return p
	}
	return "/opt/diapause"
}
