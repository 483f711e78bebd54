package embedded

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/schemas"
)

// A process that hears a plain connection can forge what follows.
func TestKeysAreAcceptedOverTLSAlone(t *testing.T) {
	o := options(t)
	s := start(t, o)
	for _, u := range []User{UserSystem, UserClient} {
		key, err := nats.NkeyOptionFromSeed(CredsFile(o.CredsDir, u))
		if err != nil {
			t.Fatal(err)
		}
		if nc, err := nats.Connect(s.URL(), key); !errors.Is(err, nats.ErrAuthorization) {
			nc.Close()
			t.Errorf("the key of user %s without TLS: %v, want a refusal", u, err)
		}
		if nc, err := nats.Connect(s.SecureURL(), key); err == nil {
			nc.Close()
			t.Errorf("the key of user %s without TLS where that is offered: %v, want a refusal", u, err)
		}
		if _, err := connect(t, s, CredsFile(o.CredsDir, u)).TLSConnectionState(); err != nil {
			t.Errorf("the connection of user %s has no TLS: %v", u, err)
		}
	}
}

// Clients take an offer of TLS though they can't check the certificate.
func TestTLSIsOfferedWithCredentialsAlone(t *testing.T) {
	s := start(t, options(t))
	for url, want := range map[string]bool{s.URL(): false, s.SecureURL(): true} {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		hello, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.HasPrefix(hello, "INFO {") || !strings.HasSuffix(hello, "\r\n") || strings.Contains(hello, "tls_available") != want {
			t.Errorf("%s says %q, %v; want an offer of TLS: %v", url, hello, err, want)
		}
	}
}

// The password of the parts opens nothing from outside, and neither does a key without its
// signature.
func TestOutsideIsNotInside(t *testing.T) {
	o := options(t)
	s := start(t, o)
	public, err := PublicKey(o.CredsDir, UserSystem)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := nats.Nkey(public, func([]byte) ([]byte, error) { return make([]byte, 64), nil })
	ca := nats.RootCAs(o.CredsDir + "/" + natsconn.AuthorityFile)
	if nc, err := natsconn.Connect(t.Context(), s.SecureURL(), "", "test"); !errors.Is(err, natsconn.ErrRefused) || !strings.Contains(schemas.HintOf(err), "--creds") {
		nc.Close()
		t.Errorf("a client without credentials where they are wanted: %v, want ErrRefused that names --creds", err)
	}
	for name, opts := range map[string][]nats.Option{
		"the parts' password with TLS": {nats.UserInfo(inProcess, s.users.password), ca},
		"a key without a signature":    {unsigned, ca},
		"another key":                  {nats.Nkey("UA"+public[2:], func([]byte) ([]byte, error) { return nil, nil }), ca},
		"no key":                       {ca},
		"a name without a password":    {nats.UserInfo(string(UserSystem), ""), ca},
	} {
		if nc, err := nats.Connect(s.SecureURL(), opts...); !errors.Is(err, nats.ErrAuthorization) {
			nc.Close()
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

func TestInProcess(t *testing.T) {
	s := start(t, options(t))
	nc := connect(t, s, "", s.InProcess())
	if _, err := nc.TLSConnectionState(); err == nil {
		t.Error("the connection crosses a network")
	}
	refusals := make(chan error, 1)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refusals <- err })
	if err := nc.Publish(schemas.SubjectAPI+".x", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.SubscribeSync(">"); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-refusals:
		t.Errorf("the parts are refused: %v", err)
	default:
	}
}

// The authority stays, so that clients of before trust a server that was started again.
func TestTheAuthorityStays(t *testing.T) {
	o := options(t)
	s := start(t, o)
	file := CredsFile(o.CredsDir, UserClient)
	auth, err := natsconn.Credentials(file)
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	s = start(t, o)
	nc, err := nats.Connect(s.SecureURL(), auth)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}
