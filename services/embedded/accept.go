package embedded

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// inProcess is the user that the parts in this process connect as. Its password is random,
// kept in memory alone, and never crosses a network.
const inProcess = "in-process"

// accept decides who a connection belongs to. A key is accepted over TLS alone: over plain
// TCP, loopback included, a process that may open a packet socket reads all that follows,
// and can forge it.
type accept struct {
	password string // of inProcess
	keys     map[string]*server.User
	system   *server.User
	edge     *server.User
}

// Check implements server.Authentication.
func (a *accept) Check(c server.ClientAuthentication) bool {
	user := a.user(c)
	if user == nil {
		return false
	}
	c.RegisterUser(user)
	return true
}

// user is the user that a connection belongs to; nil if it is refused.
func (a *accept) user(c server.ClientAuthentication) *server.User {
	o := c.GetOpts()
	switch {
	case c.Kind() != server.CLIENT:
		return nil
	case c.GetTLSConnectionState() != nil:
		if !signed(o.Nkey, o.Sig, c.GetNonce()) {
			return nil
		}
		return a.keys[o.Nkey]
	case o.Username == inProcess && subtle.ConstantTimeCompare([]byte(o.Password), []byte(a.password)) == 1:
		return a.system
	case o.Nkey != "" || o.Username != "" || o.Password != "" || o.Token != "" || o.JWT != "":
		return nil
	}
	return a.edge
}

// signed reports whether sig is what the owner of a public key made of the nonce.
func signed(key, sig string, nonce []byte) bool {
	public, err := nkeys.FromPublicKey(key)
	if err != nil {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	if err != nil { // as some clients write it
		if raw, err = base64.StdEncoding.DecodeString(sig); err != nil {
			return false
		}
	}
	return len(nonce) > 0 && public.Verify(nonce, raw) == nil
}

// newAccept makes the keys of the users that are missing.
func newAccept(credsDir string) (*accept, error) {
	a := &accept{
		password: rand.Text() + rand.Text(), keys: map[string]*server.User{},
		system: &server.User{Username: string(UserSystem)}, edge: &server.User{Username: edgeUser, Permissions: edgePermissions()},
	}
	client := &server.User{Username: string(UserClient), Permissions: clientPermissions()}
	for u, is := range map[User]*server.User{UserSystem: a.system, UserClient: client} {
		key, err := PublicKey(credsDir, u)
		if err != nil {
			return nil, err
		}
		a.keys[key] = is
	}
	return a, nil
}

// enlist puts the users into the accounts of a server that doesn't take connections yet.
func (a *accept) enlist(ns *server.Server) error {
	main, err := ns.LookupAccount(AccountMain)
	if err != nil {
		return err
	}
	for _, u := range a.keys {
		u.Account = main
	}
	a.edge.Account, err = ns.LookupAccount(AccountEdge)
	return err
}
