package containers

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/docker/dockertest"
)

const serversImage = "servers:1"

// servers makes an image with PostgreSQL, redis and nginx, from what the set-up left.
func servers(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	if _, err := e.Client.ImageInspect(t.Context(), serversImage); err == nil {
		return
	}
	prefix := os.Getenv("DIAPAUSE_PREFIX")
	if prefix == "" {
		prefix = "/opt/diapause"
	}
	f, err := os.Open(filepath.Join(prefix, "images", "servers-1.tar"))
	if err != nil {
		t.Fatalf("%v: make it by e2e/setup/servers.sh (`make setup-test` does)", err)
	}
	defer f.Close()
	e.Import(t, serversImage, f, "ENV PATH=/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin", "VOLUME /var/lib/redis")
}

// network makes a network for a test. It goes after the hosts that are made later.
func network(t *testing.T, e *dockertest.Engine, name string) {
	t.Helper()
	if _, err := e.Client.NetworkCreate(t.Context(), name, client.NetworkCreateOptions{Driver: "bridge"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if _, err := e.Client.NetworkRemove(ctx, name, client.NetworkRemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// until runs a command in a container until it succeeds, and gives what it printed.
func (h *host) until(container, script string) string {
	h.t.Helper()
	h.runs(container)
	var out string
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if out, err = h.in(container, script); err == nil {
			return strings.TrimSpace(out)
		}
	}
	h.t.Fatalf("container %s: %v", container, err)
	return ""
}

// postgres begins a database, in a volume and with a tablespace in another, or goes on with
// the one that is there.
const postgres = `mkdir -p /pg/main/data && chown -R postgres /pg && chmod 700 /pg/main/data && exec setpriv --reuid postgres --regid postgres --clear-groups sh -c '
[ -s /pg/main/data/PG_VERSION ] || initdb -A trust -D /pg/main/data >/tmp/init
exec postgres -D /pg/main/data -k /tmp -c listen_addresses= -c max_wal_size=64MB'`

// psql runs statements in the database.
func psql(statements string) string {
	return fmt.Sprintf(`psql -h /tmp -U postgres -qAt -v ON_ERROR_STOP=1 -c "%s" postgres`, statements)
}

// load inserts numbers into both tables, each in one transaction, and prints those that
// were acknowledged.
const load = `i=$(psql -h /tmp -U postgres -qAt -c "select coalesce(max(i), 0) from a" postgres)
while :; do i=$((i+1)); psql -h /tmp -U postgres -qAt -v ON_ERROR_STOP=1 -c "begin; insert into a values ($i, repeat('x', 5000)); insert into b values ($i, repeat('y', 5000)); commit" postgres || exit 1; echo $i; done`

// loaded runs the load while something is done, which may end it, and gives the last
// number that was acknowledged.
func (h *host) loaded(do func()) (last int) {
	h.t.Helper()
	var wg sync.WaitGroup
	var out string
	wg.Go(func() { out, _ = h.in("db", load) }) // it ends with its container
	from, err := strconv.Atoi(h.until("db", psql("select count(*) from a")))
	if err != nil {
		h.t.Fatal(err)
	}
	h.until("db", fmt.Sprintf("[ $(%s) -gt %d ]", psql("select count(*) from a"), from+20))
	do()
	wg.Wait()
	for line := range strings.Lines(out) {
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			last = n
		}
	}
	return last
}

// PostgreSQL with its data in one volume and a table in another, under load: each
// snapshot is of one moment, so that it recovers, and nothing that it acknowledged before
// is gone.
func TestPostgres(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	e := dockertest.Shared(t)
	servers(t, e)
	h := newHost(t, e)
	h.must("run", "--name", "db", "--image", serversImage, "--container-name", "db", "--idle", "never", "--network", "none",
		"-v", "pgmain:/pg/main", "-v", "pgmore:/pg/more", "--shm-size", "64M", "--", "sh", "-c", postgres)
	h.until("db", psql("select 1"))
	h.until("db", psql("create tablespace more location '/pg/more'"))
	h.until("db", psql("create table a (i int primary key, t text)")+" && "+psql("create table b (i int primary key, t text) tablespace more"))
	for round := range rounds(2, 3) {
		acknowledged := h.loaded(func() {
			h.must("checkpoint", "db") // it goes on
			h.must("suspend", "db")
		})
		h.must("ensure", "db")
		got := h.until("db", psql("select max(a.i), count(*), sum((b.i is null)::int), sum(length(a.t) + length(b.t)) from a full join b using (i)"))
		var last, rows, alone, bytes int
		if _, err := fmt.Sscanf(strings.ReplaceAll(got, "|", " "), "%d %d %d %d", &last, &rows, &alone, &bytes); err != nil {
			t.Fatalf("the database says %q: %v", got, err)
		}
		if last < acknowledged || acknowledged == 0 || rows != last || alone != 0 || bytes != 10000*rows {
			t.Errorf("round %d: %d was acknowledged, and after the resume there is %q", round, acknowledged, got)
		}
	}
}

// redis with its data in a volume without a name, which its image asks for.
func TestRedis(t *testing.T) {
	e := dockertest.Shared(t)
	servers(t, e)
	h := newHost(t, e)
	h.must("run", "--name", "cache", "--image", serversImage, "--container-name", "cache", "--idle", "never", "--network", "none",
		"--", "redis-server", "--dir", "/var/lib/redis", "--appendonly", "yes", "--appendfsync", "always")
	for i := range rounds(2, 3) {
		h.until("cache", fmt.Sprintf(`[ "$(redis-cli set k%d v%d)" = OK ]`, i, i))
		h.must("suspend", "cache")
		if left := h.left(); len(left) > 0 {
			t.Errorf("while it sleeps there is %q", left)
		}
		if out := h.must("ensure", "cache"); !strings.Contains(out, "boot restart") { // its memory is not what it was
			t.Errorf("ensure says %q", out)
		}
		for j := range i + 1 {
			if got := h.until("cache", fmt.Sprintf(`redis-cli ping >/dev/null && redis-cli get k%d`, j)); got != fmt.Sprintf("v%d", j) {
				t.Errorf("after round %d, k%d is %q", i, j, got)
			}
		}
	}
}

// nginx with its pages and its configuration from this host, and a program behind it that
// only it can reach: each in its networks, under its names.
func TestTwoNetworks(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	e := dockertest.Shared(t)
	servers(t, e)
	front, back := "front-"+strconv.Itoa(os.Getpid()), "back-"+strconv.Itoa(os.Getpid())
	at := t.TempDir()
	write(t, filepath.Join(at, "pages", "index.html"), "a page of the host\n")
	write(t, filepath.Join(at, "nginx.conf"), `events {} http { server { listen 80; root /pages; } }`)
	for _, n := range []string{front, back} {
		network(t, e, n)
	}
	h := newHost(t, e)
	port := freePort(t)
	h.must("run", "--name", "cache", "--image", serversImage, "--container-name", "cache", "--idle", "never", "--join", back, "--network-alias", "cache",
		"--", "redis-server", "--bind", "0.0.0.0", "--protected-mode", "no")
	h.must("run", "--name", "web", "--image", serversImage, "--container-name", "web", "--idle", "never", "--join", front, "--join", back,
		"-p", fmt.Sprintf("127.0.0.1:%d:80", port), "-v", filepath.Join(at, "pages")+":/pages:ro", "-v", filepath.Join(at, "nginx.conf")+":/etc/nginx/nginx.conf:ro",
		"--", "nginx", "-g", "daemon off;")
	reach := func() {
		t.Helper()
		if got := h.get(port, "/"); got != "a page of the host\n" {
			t.Errorf("nginx gives %q", got)
		}
		h.until("web", `bash -c 'exec 3<>/dev/tcp/cache/6379 && echo PING >&3 && read -r a <&3 && [ "${a%?}" = +PONG ]'`)
	}
	reach()
	for _, s := range []string{"web", "cache"} {
		h.must("suspend", s)
	}
	h.must("ensure", "cache")
	h.must("ensure", "web")
	reach()
	if v := h.view("web"); v.State != schemas.Running || v.Driver != "docker" {
		t.Errorf("it is %s, by driver %s", v.State, v.Driver)
	}
}

// freePort gives a port that no outgoing connection of another test takes meanwhile.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port between 20000 and 32000 is free")
	return 0
}

// get asks a web server on this host, until it answers.
func (h *host) get(port int, path string) string {
	h.t.Helper()
	var last error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if last = err; err != nil {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if last = err; err == nil && resp.StatusCode == http.StatusOK {
			return string(body)
		}
	}
	h.t.Fatalf("no answer on port %d: %v", port, last)
	return ""
}
