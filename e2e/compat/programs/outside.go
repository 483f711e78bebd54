package programs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/diapause/diapause/e2e/compat/local"
)

// RedisOutside is a redis-server with a client that is not in the session, by a port that the session
// publishes: the connection ends with every suspend, the server goes on.
func RedisOutside() Program {
	o := &outside{port: freePort()}
	return Program{
		Name:   "redis-server, client outside",
		State:  "1,000 keys; the outside client's connection is closed and a new one served",
		Limits: "connections with the outside are closed by a suspend; their client must connect again",
		Needs:  []string{"redis-server"}, Version: []string{"redis-server", "--version"},
		Flags: []string{"--publish", fmt.Sprintf("%d:6379", o.port)},
		Command: []string{"redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
			"--dir", "/tmp"},
		Prepare: o.prepare, Check: o.check,
	}
}

type outside struct {
	port int
	conn net.Conn
	read *bufio.Reader
}

const outsideKeys = 1000

func (o *outside) prepare(ctx context.Context, _ *local.Session) error {
	if err := o.connect(ctx); err != nil {
		return err
	}
	for i := range outsideKeys {
		if err := o.expect(fmt.Sprintf("SET key:%d %d", i, i), "+OK"); err != nil {
			return err
		}
	}
	return nil
}

// connect tries until the server answers. The port takes connections as soon as the session runs.
func (o *outside) connect(ctx context.Context) error {
	for deadline := time.Now().Add(patience); ; {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
		if err == nil {
			o.conn, o.read = conn, bufio.NewReader(conn)
			if err = errors.Join(conn.SetDeadline(time.Now().Add(programTime)), o.expect("PING", "+PONG")); err == nil {
				return nil
			}
			conn.Close()
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("connect to redis from outside: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// programTime bounds the life of a connection from outside.
const programTime = 2 * time.Minute

func (o *outside) expect(command, answer string) error {
	if _, err := fmt.Fprintf(o.conn, "%s\r\n", command); err != nil {
		return fmt.Errorf("ask redis from outside: %w", err)
	}
	line, err := o.read.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read redis' answer outside: %w", err)
	}
	return same("the answer to "+command, answer, strings.TrimSpace(line))
}

func (o *outside) check(ctx context.Context, _ *local.Session, r Round) error {
	if err := o.expect("PING", "+PONG"); err == nil {
		return errors.New("the outside connection lives on")
	}
	o.conn.Close()
	if err := o.connect(ctx); err != nil {
		return err
	}
	if err := o.expect("DBSIZE", fmt.Sprintf(":%d", outsideKeys+min(r.N-1, 1))); err != nil {
		return err
	}
	return o.expect("INCR rounds", fmt.Sprintf(":%d", r.N))
}
