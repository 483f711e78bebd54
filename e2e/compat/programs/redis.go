package programs

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/diapause/diapause/e2e/compat/local"
)

// Redis is a server with 100,000 keys, and redis-cli beside it, which has one
// connection all the time: reconnecting would give it another client id.
func Redis(network string) Program {
	r := &redis{}
	p := Program{
		Name:  "redis-server, --network " + network,
		State: "100,000 keys by digest, redis-cli in the session on the same TCP connection (client id)",
		Needs: []string{"redis-server", "redis-cli"}, Version: []string{"redis-server", "--version"},
		Flags: []string{"--network", network}, Prepare: r.prepare, Check: r.check,
	}
	r.port = 6390
	if network == "host" {
		r.port = freePort()
	}
	p.Command = []string{"/bin/sh", "-c", fmt.Sprintf(redisScript, r.port)}
	return p
}

// freePort is a port that is free on the host's loopback now.
func freePort() int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 6390
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

const redisScript = `port=%d
redis-server --port $port --bind 127.0.0.1 --save '' --appendonly no --dir /tmp --enable-debug-command yes >/tmp/server.out 2>&1 &
mkfifo /tmp/in
exec 3<>/tmp/in
until redis-cli -p $port ping; do sleep 0.05; done
redis-cli -p $port </tmp/in >/tmp/out 2>&1 &
touch /tmp/up
wait`

type redis struct {
	port       int
	asked      int
	id, digest string
}

const redisKeys = 100_000

func (r *redis) prepare(ctx context.Context, s *local.Session) error {
	if _, err := s.Until(ctx, patience, "test -e /tmp/up"); err != nil {
		return err
	}
	var b strings.Builder
	for i := range redisKeys {
		fmt.Fprintf(&b, "SET key:%d %x-%d\r\n", i, i*2654435761, i)
	}
	out, err := s.Exec(ctx, b.String(), "redis-cli", "-p", strconv.Itoa(r.port), "--pipe")
	if err != nil {
		return fmt.Errorf("fill redis: %w (%s)", err, out)
	}
	if r.id, err = r.ask(ctx, s, "CLIENT ID"); err != nil {
		return err
	}
	r.digest, err = r.ask(ctx, s, "DEBUG DIGEST")
	return err
}

func (r *redis) check(ctx context.Context, s *local.Session, round Round) error {
	size := redisKeys
	if round.N > 1 {
		size++ // what the first round has set
	}
	for _, want := range []struct{ what, ask, answer string }{
		{"the client's id, which is new with every connection,", "CLIENT ID", r.id},
		{"the number of keys", "DBSIZE", strconv.Itoa(size)},
		{"the digest of all keys", "DEBUG DIGEST", r.digest},
		{"one key", "GET key:77", fmt.Sprintf("%x-%d", 77*2654435761, 77)},
	} {
		got, err := r.ask(ctx, s, want.ask)
		if err != nil {
			return err
		}
		if err := same(want.what, want.answer, got); err != nil {
			return err
		}
	}
	n, err := r.ask(ctx, s, "INCR rounds")
	if err != nil {
		return err
	}
	if err := same("the counter in redis", strconv.Itoa(round.N), n); err != nil {
		return err
	}
	r.digest, err = r.ask(ctx, s, "DEBUG DIGEST")
	return err
}

// ask gives a command to the redis-cli in the session and reads its answer, of
// one line.
func (r *redis) ask(ctx context.Context, s *local.Session, command string) (string, error) {
	r.asked++
	mark := fmt.Sprintf("end-of-%d", r.asked)
	out, err := s.Until(ctx, patience, fmt.Sprintf(
		`grep -q begin-%[2]s /tmp/out || printf 'ECHO begin-%[2]s\n%[1]s\nECHO %[2]s\n' >/tmp/in
		for i in 1 2 3 4 5 6 7 8; do grep -qx %[2]s /tmp/out || sleep 0.05; done
		sed -n '/^begin-%[2]s$/,/^%[2]s$/p' /tmp/out | grep -x -B 1 %[2]s | head -n 1 | grep .`, command, mark))
	if err != nil {
		said, _ := s.Shell(ctx, "tail -n 3 /tmp/out /tmp/server.out")
		return "", fmt.Errorf("redis-cli doesn't answer %q: %w: %s", command, err, said)
	}
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(out), "(integer)")), nil
}
