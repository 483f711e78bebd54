package natsconn_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
)

const patience = 30 * time.Second

func start(t *testing.T, opts *server.Options) string {
	t.Helper()
	opts.Port = -1
	return begin(t, opts).ClientURL()
}

func begin(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.NoSigs, opts.NoLog = "127.0.0.1", true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server did not get ready")
	}
	return s
}

// A connection that was lost is kept even where the server doesn't know the key for a
// while, as one that was restarted with a wrong configuration.
func TestRefusedForAWhile(t *testing.T) {
	public, file, _ := newUser(t)
	other, _, _ := newUser(t)
	with := func(key string, port int) *server.Options {
		return &server.Options{Port: port, Nkeys: []*server.NkeyUser{{Nkey: key}}}
	}
	s := begin(t, with(public, -1))
	port := s.Addr().(*net.TCPAddr).Port
	refused := make(chan error)
	told := make(chan struct{})
	nc, err := natsconn.Connect(t.Context(), s.ClientURL(), file, "test", nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case refused <- err:
			case <-told:
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	back := nc.StatusChanged(nats.CONNECTED)
	s.Shutdown()
	s.WaitForShutdown()
	s = begin(t, with(other, port))
	for range 5 {
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("told of %v", err)
			}
		case <-time.After(patience):
			t.Fatalf("it isn't tried again: %s", nc.Status())
		}
	}
	close(told)
	s.Shutdown()
	s.WaitForShutdown()
	begin(t, with(public, port))
	select {
	case <-back:
	case <-time.After(patience):
		t.Errorf("it is %s", nc.Status())
	}
}

// newUser gives a user's public key and a file with its seed.
func newUser(t *testing.T) (public, file string, kp nkeys.KeyPair) {
	t.Helper()
	kp, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := kp.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err = kp.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public, write(t, string(seed)+"\n"), kp
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "user")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestConnectWithSeed(t *testing.T) {
	public, file, _ := newUser(t)
	url := start(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})
	nc, err := natsconn.Connect(t.Context(), url, file, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if nc.Opts.Name != "test" {
		t.Errorf("the connection is called %q, want %q", nc.Opts.Name, "test")
	}
}

func TestConnectWithCreds(t *testing.T) {
	operator, _ := nkeys.CreateOperator()
	account, _ := nkeys.CreateAccount()
	operatorKey, _ := operator.PublicKey()
	accountKey, _ := account.PublicKey()
	accountJWT, err := jwt.NewAccountClaims(accountKey).Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	userKey, _, user := newUser(t)
	userJWT, err := jwt.NewUserClaims(userKey).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := user.Seed()
	creds, err := jwt.FormatUserConfig(userJWT, seed)
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountKey, accountJWT); err != nil {
		t.Fatal(err)
	}
	url := start(t, &server.Options{TrustedKeys: []string{operatorKey}, AccountResolver: resolver})
	nc, err := natsconn.Connect(t.Context(), url, write(t, string(creds)), "test")
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestRefusedCredentialsAreNamed(t *testing.T) {
	public, _, _ := newUser(t)
	_, stranger, _ := newUser(t)
	url := start(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})
	_, err := natsconn.Connect(t.Context(), url, stranger, "test")
	if !errors.Is(err, natsconn.ErrRefused) || !strings.Contains(err.Error(), stranger) {
		t.Errorf("a stranger's seed: %v, want ErrRefused with the file's name", err)
	}
	_, err = natsconn.Connect(t.Context(), url, "", "test")
	if !errors.Is(err, natsconn.ErrRefused) || !strings.Contains(schemas.HintOf(err), "--creds") {
		t.Errorf("no credentials: %v, want ErrRefused that names --creds", err)
	}
}

func TestNothingListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://" + l.Addr().String()
	l.Close()
	_, err = natsconn.Connect(t.Context(), url, "", "test")
	if !errors.Is(err, natsconn.ErrUnreachable) || !strings.Contains(schemas.HintOf(err), "diapause up") || !strings.Contains(err.Error(), url) {
		t.Errorf("connect: %v, want ErrUnreachable that names the URL and diapause up", err)
	}
}

func TestSomethingElseListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := natsconn.Connect(ctx, "nats://"+l.Addr().String(), "", "test"); !errors.Is(err, natsconn.ErrUnreachable) {
		t.Errorf("connect: %v, want ErrUnreachable", err)
	}
}

func TestCancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := natsconn.Connect(ctx, "nats://127.0.0.1:1", "", "test"); !errors.Is(err, context.Canceled) {
		t.Errorf("connect: %v, want context.Canceled", err)
	}
}

func TestUnusableFiles(t *testing.T) {
	const secret = "a-secret-that-is-no-key"
	for name, file := range map[string]string{
		"missing":   filepath.Join(t.TempDir(), "nothing"),
		"no key":    write(t, secret),
		"empty":     write(t, ""),
		"huge":      write(t, strings.Repeat("x", 1<<20)),
		"directory": t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := natsconn.Connect(t.Context(), "nats://127.0.0.1:1", file, "test")
			if !errors.Is(err, natsconn.ErrCredentials) || !strings.Contains(err.Error(), file) {
				t.Fatalf("connect: %v, want ErrCredentials with the file's name", err)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error quotes the file: %v", err)
			}
		})
	}
}
