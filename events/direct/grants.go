package direct

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/schemas"
)

// Grant is what one connection may reach: a port of a session at one epoch. The Hello is that of the client
// that asked.
type Grant struct {
	Hello attach.Hello
	UID   schemas.UID
	Epoch uint64
	Port  uint16
}

// Lifetime is how long a grant can be used.
const Lifetime = 30 * time.Second

// secretSize is that of a grant's secret, in bytes.
const secretSize = 32

// maxGrants is how many grants can wait to be used.
const maxGrants = 1024

// What is wrong with a grant. The one who shows it isn't told.
var (
	errUnknown = errors.New("the grant isn't one of this host, or was used")
	errExpired = errors.New("the grant has expired")
	errOther   = errors.New("the grant is for another session or port")
)

// errMany: a client has to do without a direct connection.
var errMany = errors.New("too many grants wait to be used")

// grants are those that were given and not used. What it keeps of a secret is its hash, so that the
// time of a search says nothing about it.
type grants struct {
	mu    sync.Mutex
	given map[[sha256.Size]byte]given
}

type given struct {
	Grant
	until time.Time
}

// give makes a grant, and gives its secret.
func (g *grants) give(now time.Time, to Grant) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.given) >= maxGrants {
		for k, v := range g.given {
			if !now.Before(v.until) {
				delete(g.given, k)
			}
		}
	}
	if len(g.given) >= maxGrants {
		return nil, errMany
	}
	secret := make([]byte, secretSize)
	rand.Read(secret)
	if g.given == nil {
		g.given = map[[sha256.Size]byte]given{}
	}
	g.given[sha256.Sum256(secret)] = given{to, now.Add(Lifetime)}
	return secret, nil
}

// use gives what a secret stands for, once: a grant that was shown is gone, whether it was good or not.
func (g *grants) use(now time.Time, r redemption) (Grant, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := sha256.Sum256(r.secret)
	v, ok := g.given[k]
	delete(g.given, k)
	switch {
	case !ok:
		return Grant{}, errUnknown
	case !now.Before(v.until):
		return Grant{}, errExpired
	case v.Hello.Name != r.session || v.Port != r.port:
		return Grant{}, errOther
	}
	return v.Grant, nil
}
