package embedded

import (
	"errors"
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
		if _, err := connect(t, s, CredsFile(o.CredsDir, u)).TLSConnectionState(); err != nil {
			t.Errorf("the connection of user %s has no TLS: %v", u, err)
		}
	}
}

func TestTLSWithoutAKeyIsAStranger(t *testing.T) {
	o := options(t)
	s := start(t, o)
	ca := nats.RootCAs(o.CredsDir + "/" + natsconn.AuthorityFile)
	connectStranger(t, s, "").refuses(t, []string{"diapause.v1.api.ls"}, nil)
	edge := stranger{connect(t, s, "", ca), nil}
	if err := edge.Flush(); err != nil {
		t.Fatal(err)
	}
	if edge.MaxPayload() != edgePayload {
		t.Errorf("a stranger with TLS may send %d bytes, want %d", edge.MaxPayload(), edgePayload)
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
	for name, opts := range map[string][]nats.Option{
		"the parts' password":          {nats.UserInfo(inProcess, s.password)},
		"the parts' password with TLS": {nats.UserInfo(inProcess, s.password), ca},
		"a key without a signature":    {unsigned, ca},
		"another key":                  {nats.Nkey("UA"+public[2:], func([]byte) ([]byte, error) { return nil, nil }), ca},
		"a name without a password":    {nats.UserInfo(string(UserSystem), ""), ca},
	} {
		if nc, err := nats.Connect(s.URL(), opts...); !errors.Is(err, nats.ErrAuthorization) {
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
	nc, err := nats.Connect(s.URL(), auth)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}
