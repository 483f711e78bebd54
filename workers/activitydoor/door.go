package activitydoor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/diapause/diapause/events/accept"
	"github.com/diapause/diapause/events/strangers"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/activityport"
)

// What all sessions of a host may have open and send: what the server of `diapause up` takes of them.
const (
	connectionsAtOnce = 1024
	bytesPerSecond    = 64 << 10
)

// flushWait bounds how long the server may take to say that it has what was published.
const flushWait = 5 * time.Second

// Door passes on what sessions of a host publish at their ports, over the worker's own connection: to a server that
// wants credentials, which no session has.
type Door struct {
	listener *net.UnixListener
	path     string
	nc       *nats.Conn
	rate     *rate.Limiter
	ledger   strangers.Ledger
}

// Open listens in the host's data directory, where activityport.ToDoor finds it. Another Door there is replaced.
func Open(data string, nc *nats.Conn) (*Door, error) {
	dir, err := os.Open(data)
	if err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	defer dir.Close()
	d := &Door{path: filepath.Join(data, activityport.Socket), nc: nc, rate: rate.NewLimiter(bytesPerSecond, bytesPerSecond)}
	if err := d.remove(); err != nil {
		return nil, err
	}
	if d.listener, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: activityport.Within(dir)}); err != nil {
		return nil, fmt.Errorf("listen for activity: %w", err)
	}
	d.listener.SetUnlinkOnClose(false) // by a name that is no more
	if err := os.Chmod(d.path, 0o600); err != nil {
		d.listener.Close()
		return nil, fmt.Errorf("keep others from %s: %w", activityport.Socket, err)
	}
	return d, nil
}

func (d *Door) remove() error {
	if err := os.Remove(d.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the old door: %w", err)
	}
	return nil
}

// Serve takes connections until ctx ends, and returns when all are closed.
func (d *Door) Serve(ctx context.Context) error {
	var all sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { d.listener.Close() })
	defer stop()
	room := make(chan struct{}, connectionsAtOnce)
	accept.Each(ctx, d.listener.AcceptUnix, func(c *net.UnixConn) {
		select {
		case room <- struct{}{}:
		default:
			c.Close()
			return
		}
		all.Go(func() {
			defer func() { <-room }()
			d.attend(ctx, c)
		})
	}, nil)
	all.Wait()
	return d.remove()
}

// attend is the server of one connection until that ends, or ctx does, or the host has no server.
func (d *Door) attend(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	defer c.Close()
	v := visitor{door: d, ctx: ctx, c: c, verbose: true}
	err := v.greet()
	for in := bufio.NewReaderSize(c, activityport.LongestLine); err == nil; {
		err = v.next(in)
	}
	var broken activityport.ProtocolError
	if errors.As(err, &broken) {
		_ = v.refuse(string(broken)) // if it still listens
	}
}

// visitor is one connection at a door.
type visitor struct {
	door    *Door
	ctx     context.Context
	c       net.Conn
	verbose bool // each line is acknowledged
	unsaid  bool // something was published that the server may not have
}

// errAway ends connections while the host has no server: who publishes then connects again.
var errAway = activityport.ProtocolError("Server Is Away")

// greet says what a server says first.
func (v *visitor) greet() error {
	if !v.door.nc.IsConnected() {
		return errAway
	}
	_, err := fmt.Fprintf(v.c, "INFO {\"server_id\":\"activity\",\"server_name\":\"activity\",\"version\":%q,\"proto\":1,\"headers\":true,\"max_payload\":%d}\r\n",
		v.door.nc.ConnectedServerVersion(), activityport.LargestPayload)
	return err
}

// next carries out one line.
func (v *visitor) next(in *bufio.Reader) error {
	line, err := activityport.ReadLine(in)
	if err != nil {
		return err
	}
	if err := v.door.rate.WaitN(v.ctx, len(line)+len("\r\n")); err != nil {
		return err
	}
	op, rest, _ := strings.Cut(line, " ")
	switch strings.ToUpper(op) {
	case "", "PONG":
		return nil
	case "PING":
		return v.flush()
	case "CONNECT":
		return v.connect(rest)
	case "SUB": // as at the server of `diapause up`, where publishers hear no answers
		subject, _, _ := strings.Cut(rest, " ")
		return v.refuse(fmt.Sprintf("Permissions Violation for Subscription to %q", subject))
	case "UNSUB":
		return v.ok()
	case "PUB":
		return v.publish(in, rest, 0)
	case "HPUB":
		return v.publish(in, rest, 1)
	}
	return activityport.ProtocolError("Unknown Protocol Operation")
}

func (v *visitor) refuse(text string) error {
	_, err := fmt.Fprintf(v.c, "-ERR '%s'\r\n", text)
	return err
}

func (v *visitor) ok() (err error) {
	if v.verbose {
		_, err = fmt.Fprint(v.c, "+OK\r\n")
	}
	return err
}

func (v *visitor) connect(text string) error {
	said := struct {
		Verbose *bool `json:"verbose"`
	}{}
	if json.Unmarshal([]byte(text), &said) != nil {
		return activityport.ProtocolError("Parser Error")
	}
	if said.Verbose != nil {
		v.verbose = *said.Verbose
	}
	return v.ok()
}

// flush answers when the server has what was published.
func (v *visitor) flush() error {
	if v.unsaid {
		if err := v.door.nc.FlushTimeout(flushWait); err != nil {
			return errAway
		}
		v.unsaid = false
	}
	_, err := fmt.Fprint(v.c, "PONG\r\n")
	return err
}

// publish passes a message on.
func (v *visitor) publish(in *bufio.Reader, rest string, headers int) error {
	words, payload, err := activityport.ReadMessage(in, rest, activityport.LeastWords+headers)
	if err != nil {
		return err
	}
	subject, data := words[0], payload[:len(payload)-len("\r\n")]
	var header []byte
	if headers > 0 {
		size, err := strconv.ParseUint(words[len(words)-2], 10, 32)
		if err != nil || size > uint64(len(data)) {
			return activityport.ProtocolError("Parser Error")
		}
		header, data = data[:size], data[size:]
	}
	if err := v.door.rate.WaitN(v.ctx, len(payload)); err != nil {
		return err
	}
	session, ok := inside(subject)
	switch {
	case !ok:
		return v.refuse(fmt.Sprintf("Permissions Violation for Publish to %q", subject))
	case !v.door.nc.IsConnected():
		return errAway // it would wait among what the worker has to say
	}
	if err := v.door.nc.PublishMsg(v.door.stored(session, subject, header, data)); err != nil {
		return errAway
	}
	v.unsaid = true
	return v.ok()
}

// stored gives what the stream gets of a message: only so much of a session's and of a tenant's, and above that alone that it is in use
// now.
func (d *Door) stored(session schemas.Name, subject string, header, data []byte) *nats.Msg {
	kept, long := strangers.Stored(subject, header, data)
	if d.ledger.Take(string(session.Tenant), subject, long, time.Now()) {
		return &nats.Msg{Subject: subject, Header: kept, Data: data}
	}
	return nats.NewMsg(schemas.Marked(schemas.ActivitySubject(session, schemas.KindHeartbeat, ""), schemas.FromInside))
}

// inside gives the session that a subject is about, if it is one of activity and has the mark of a session's programs.
func inside(subject string) (schemas.Name, bool) {
	about, ok := strings.CutPrefix(subject, schemas.SubjectActivity+".")
	words := strings.Split(about, ".")
	if !ok || len(words) < 3 || words[len(words)-1] != schemas.FromInside || strings.ContainsAny(subject, "*>") || strings.ContainsFunc(subject, unicode.IsControl) {
		return schemas.Name{}, false
	}
	n := schemas.Name{Tenant: schemas.Tenant(words[0]), Session: schemas.SessionID(words[1])}
	return n, n.Validate() == nil
}
