package doctor

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/services/embedded"
)

// Server says which NATS server is to be checked.
type Server struct {
	URL   string // of one that runs elsewhere; "" for the data directory's own
	Creds string // file of credentials for URL
	Data  string // the data directory
}

// NATS checks that JetStream keeps what is written to it: on the server that was
// named, on that of the `diapause up` that runs, or on one that is started for the
// purpose on the data directory's file system.
func NATS(s Server, scratch *Scratch) Check {
	needs := []string{NameScratch}
	if s.URL != "" {
		needs = nil
	}
	return Check{
		Name: "nats", What: "NATS JetStream writes, reads and deletes", Needs: needs,
		Run: func(ctx context.Context) Result {
			url, creds, whose, stop, err := s.reach(ctx, scratch)
			if err == nil {
				defer stop()
				var took time.Duration
				if took, err = tryJetStream(ctx, url, creds); err == nil {
					r := okf("%s: a write is acknowledged after %s", whose, took.Round(10*time.Microsecond))
					r.Measured = map[string]int64{"write_us": took.Microseconds()}
					return r
				}
			}
			return failed(err, natsFix(err))
		},
	}
}

// reach gives a server and credentials that may make streams.
func (s Server) reach(ctx context.Context, scratch *Scratch) (url, creds, whose string, stop func(), err error) {
	nothing := func() {}
	if s.URL != "" {
		return s.URL, s.Creds, "the server at " + s.URL, nothing, nil
	}
	if up, ok := upOf(s.Data); ok {
		creds := up.ClientCreds
		// What a client of the embedded server has may not make streams.
		if dir := filepath.Dir(creds); creds == embedded.CredsFile(dir, embedded.UserClient) {
			creds = embedded.CredsFile(dir, embedded.UserSystem)
		}
		return up.URL, creds, "the server of the `diapause up` that runs", nothing, nil
	}
	dir, err := scratch.Make("nats")
	if err != nil {
		return "", "", "", nil, err
	}
	creds = filepath.Join(dir, "creds")
	srv, err := embedded.Start(ctx, embedded.Options{StoreDir: filepath.Join(dir, "store"), CredsDir: creds})
	if err != nil {
		return "", "", "", nil, err
	}
	return srv.SecureURL(), embedded.CredsFile(creds, embedded.UserSystem), "a server started for the purpose", srv.Shutdown, nil
}

func natsFix(err error) string {
	switch {
	case errors.Is(err, natsconn.ErrUnreachable):
		return "start the server, or correct its address (--url, --nats)"
	case errors.Is(err, natsconn.ErrRefused), errors.Is(err, natsconn.ErrCredentials):
		return "give a file of credentials that this server accepts with --creds"
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return "switch JetStream on for the server and the account (-js, and jetstream: enabled in the account)"
	case errors.Is(err, nats.ErrPermissionViolation):
		return "give credentials with --creds that may make streams and buckets, as `diapause up` does"
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
		return "make sure that JetStream runs on that server, and answers"
	}
	return "look at the server's log, and at the room and the health of its disk"
}

const (
	probePrefix  = "DIAPAUSE_doctor_" // of the stream's name
	probeSubject = "diapause-doctor."
	probeWrites  = 8
	probeWait    = 20 * time.Second
	probeOld     = 10 * time.Minute // after which a stream was left behind
)

// tryJetStream writes to a stream of its own, reads it back and removes it. It
// gives the average time until a write was acknowledged.
func tryJetStream(ctx context.Context, url, creds string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	nc, err := natsconn.Connect(ctx, url, creds, "diapause doctor", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		refuse(err) // what isn't permitted gets no other answer
	}))
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	took, err = tryStream(ctx, nc)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	return took, err
}

func tryStream(ctx context.Context, nc *nats.Conn) (took time.Duration, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, fmt.Errorf("use JetStream: %w", err)
	}
	if err := sweepStreams(ctx, js); err != nil {
		return 0, err
	}
	id := rand.Text()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: probePrefix + id, Subjects: []string{probeSubject + id}, Storage: jetstream.FileStorage, Replicas: 1,
		Description: "made by diapause doctor, which removes it",
	})
	if err != nil {
		return 0, fmt.Errorf("make a stream: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeWait)
		defer cancel()
		if deleteErr := js.DeleteStream(ctx, probePrefix+id); deleteErr != nil {
			err = errors.Join(err, fmt.Errorf("delete the stream %s: %w", probePrefix+id, deleteErr))
		}
	}()
	return writeAndRead(ctx, js, stream, probeSubject+id)
}

func writeAndRead(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, subject string) (time.Duration, error) {
	began := time.Now()
	for n := range probeWrites {
		ack, err := js.Publish(ctx, subject, fmt.Appendf(nil, "write %d", n))
		if err != nil {
			return 0, fmt.Errorf("write to a stream: %w", err)
		}
		if ack.Sequence != uint64(n+1) {
			return 0, fmt.Errorf("write %d to a new stream got the sequence %d", n+1, ack.Sequence)
		}
	}
	took := time.Since(began) / probeWrites
	for n := range probeWrites {
		msg, err := stream.GetMsg(ctx, uint64(n+1))
		if err != nil {
			return 0, fmt.Errorf("read from a stream: %w", err)
		}
		if string(msg.Data) != fmt.Sprintf("write %d", n) {
			return 0, fmt.Errorf("message %d of a stream is %.40q, not what was written", n+1, msg.Data)
		}
	}
	return took, nil
}

// sweepStreams removes the streams of doctors that were killed.
func sweepStreams(ctx context.Context, js jetstream.JetStream) error {
	streams := js.ListStreams(ctx, jetstream.WithStreamListSubject(probeSubject+"*"))
	for info := range streams.Info() {
		if !strings.HasPrefix(info.Config.Name, probePrefix) || time.Since(info.Created) < probeOld {
			continue
		}
		if err := js.DeleteStream(ctx, info.Config.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("remove what an earlier doctor left: delete the stream %s: %w", info.Config.Name, err)
		}
	}
	if err := streams.Err(); err != nil {
		return fmt.Errorf("list the streams of JetStream: %w", err)
	}
	return nil
}

// Port checks that the embedded server can listen where it is to, unless it does
// so already or isn't wanted.
func Port(s Server, listen string) Check {
	return Check{Name: "port", What: "the embedded NATS server has its port", Run: func(ctx context.Context) Result {
		if s.URL != "" {
			return Result{Status: Skipped, Detail: "no embedded server is wanted: NATS is at " + s.URL}
		}
		if up, ok := upOf(s.Data); ok {
			if u, err := url.Parse(cmp.Or(up.PublicURL, up.URL)); err == nil {
				return okf("%s, held by our own `diapause up`, process %d", u.Host, up.PID)
			}
		}
		return port(ctx, listen)
	}}
}

func port(ctx context.Context, listen string) Result {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", listen)
	switch {
	case err == nil:
		l.Close()
		return okf("%s is free", listen)
	case errors.Is(err, syscall.EADDRINUSE):
		return Result{
			Status: Fail, Detail: fmt.Sprintf("%s is in use by %s", listen, holder(ctx, listen)),
			Fix: "stop it, or choose another address with --listen, or use a NATS server that runs with --nats",
		}
	}
	return failed(err, "choose another address with --listen, for example 127.0.0.1:4222")
}

// holder says what listens at an address, as far as it says so itself.
func holder(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "another process"
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if hello, err := bufio.NewReader(c).Peek(5); err == nil && string(hello) == "INFO " {
		return "a NATS server: another one, or a `diapause up` of another data directory"
	}
	return "another process, which is no NATS server"
}
