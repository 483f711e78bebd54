package schemas

import (
	"fmt"
	"slices"
	"time"
)

// HeaderToken is the header of a request on SubjectBearer with the token of who asks.
const HeaderToken = "Diapause-Token"

// TokenPrefix begins every token, so that one which was published by mistake is found.
const TokenPrefix = "dpt_"

// TokenRole is what the bearer of a token may ask for. A token of every role but operator is
// confined to one tenant, or to one session of it.
type TokenRole string

// The roles of tokens, each with more than the one before, but for publisher.
const (
	TokenPublisher TokenRole = "publisher" // report what is in use, and see nothing
	TokenReader    TokenRole = "reader"    // look
	TokenClient    TokenRole = "client"    // look, report what is in use, suspend, resume and checkpoint
	TokenOwner     TokenRole = "owner"     // all that is about sessions and stays within them
	TokenOperator  TokenRole = "operator"  // everything, of every tenant
)

// What tokens are that no program has. As says which role a browser with a login has.
const (
	TokenLink  TokenRole = "link"  // logs a browser in, once
	TokenLogin TokenRole = "login" // of a browser that is logged in: its cookie and what its page keeps, together
	TokenCode  TokenRole = "code"  // gives a browser that is logged in the cookie of a port's host, once
	TokenPort  TokenRole = "port"  // the cookie of a port's host
)

// TokenWatcher is the role of a token of `diapause share`: it watches the terminal of its session, and is no token for
// anything else.
const TokenWatcher TokenRole = "watcher"

// How long what isn't a token of a program is valid: of a login its link says it.
const (
	LinkFor = 10 * time.Minute
	CodeFor = time.Minute
	PortFor = 12 * time.Hour
)

// TokenRoles lists the roles of tokens that can be made.
func TokenRoles() []TokenRole {
	return []TokenRole{TokenPublisher, TokenReader, TokenClient, TokenOwner, TokenOperator}
}

// MaxToken is the longest time for which a token is made.
const MaxToken = Duration(10 * 365 * 24 * time.Hour)

// TokenRequest is what is asked about tokens.
type TokenRequest struct {
	ID string `json:"id,omitempty"` // of revoke: which
	// Role, Session and For are of create. The tenant is the request's: none for an operator's.
	Role    TokenRole `json:"role,omitempty"`
	Session SessionID `json:"session,omitempty"` // every session of the tenant if empty
	For     Duration  `json:"for,omitempty"`
	// Link has create make the code of a link that logs a browser in with the role, for that time. The link itself
	// is valid for LinkFor.
	Link bool `json:"link,omitempty"`
}

// Validate says what can't be made.
func (r TokenRequest) Validate(t Tenant) error {
	if !slices.Contains(TokenRoles(), r.Role) {
		return fmt.Errorf("role %q: want one of %s", r.Role, joined(TokenRoles()))
	}
	if r.For <= 0 || r.For > MaxToken {
		return fmt.Errorf("a token for %s: want a time up to %s", time.Duration(r.For), time.Duration(MaxToken))
	}
	if r.Role == TokenOperator {
		if t != "" || r.Session != "" {
			return fmt.Errorf("the role %s is for every tenant: name none", r.Role)
		}
		return nil
	}
	if !ValidToken(string(t)) {
		return fmt.Errorf("tenant %q: want 1 to 64 of A-Z a-z 0-9 _ -", t)
	}
	if r.Session != "" && !ValidToken(string(r.Session)) {
		return fmt.Errorf("session %q: want 1 to 64 of A-Z a-z 0-9 _ -", r.Session)
	}
	return nil
}

// TokenRecord is what is stored of a token: all but the token.
type TokenRecord struct {
	ID      string    `json:"id"` // the first letters of the digest
	Digest  string    `json:"digest"`
	Role    TokenRole `json:"role"`
	Tenant  Tenant    `json:"tenant,omitempty"`  // every one if empty
	Session SessionID `json:"session,omitempty"` // every one of the tenant if empty
	Created time.Time `json:"created"`
	By      string    `json:"by"`
	Expires time.Time `json:"expires"`
	Revoked time.Time `json:"revoked,omitzero"`
	Used    time.Time `json:"used,omitzero"`    // when it was used last, to a minute
	Change  string    `json:"change,omitempty"` // fresh for each revision
	// Of what no program has:
	As   TokenRole `json:"as,omitempty"`   // the role of the browser
	Port uint16    `json:"port,omitempty"` // of a code and a port: that of Session
	Of   string    `json:"of,omitempty"`   // of a code and a port: the digest of the login that they end with; of a watcher: of the token that made it, if one did
	Long Duration  `json:"long,omitempty"` // of a link: how long the login is valid
}

// View is the record as clients see it.
func (r TokenRecord) View() TokenView {
	v := TokenView{
		ID: r.ID, Role: r.Role, Tenant: r.Tenant, Session: r.Session, Created: r.Created, By: r.By, Expires: r.Expires, Revoked: r.Revoked, Used: r.Used,
		As: r.As, Port: r.Port,
	}
	if len(r.Of) > len(r.ID) {
		v.Of = r.Of[:len(r.ID)]
	}
	return v
}

// TokenView is a token as clients see it: what `diapause token ls` prints with --json.
type TokenView struct {
	ID      string    `json:"id"`
	Token   string    `json:"token,omitempty"` // of an answer to token_create, login and login_port alone
	Role    TokenRole `json:"role"`
	Tenant  Tenant    `json:"tenant,omitempty"`
	Session SessionID `json:"session,omitempty"`
	Created time.Time `json:"created"`
	By      string    `json:"by"`
	Expires time.Time `json:"expires"`
	Revoked time.Time `json:"revoked,omitzero"`
	Used    time.Time `json:"used,omitzero"`
	As      TokenRole `json:"as,omitempty"`   // of a link, a login, a code and a port: the role of the browser
	Port    uint16    `json:"port,omitempty"` // of a code and a port
	Of      string    `json:"of,omitempty"`   // of a code and a port: the id of the login that they end with; of a watcher: of the token that made it, if one did
}

// WhoAmI is a caller as the API knows it.
type WhoAmI struct {
	Actor   string    `json:"actor"`
	Role    TokenRole `json:"role,omitempty"` // of a token; none of a NATS user
	Tenant  Tenant    `json:"tenant,omitempty"`
	Session SessionID `json:"session,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}
