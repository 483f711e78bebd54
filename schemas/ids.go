package schemas

import (
	"fmt"
	"strings"
)

// DefaultTenant is the tenant of a name that gives none.
const DefaultTenant Tenant = "default"

// Tenant owns sessions, keys and quotas.
type Tenant string

// SessionID names a session within its tenant.
type SessionID string

// HostID names one machine with a worker.
type HostID string

// UID names one life of a session: made new by every run, so that a reused
// name starts clean. The fence of all that acts on a session is (UID, epoch).
type UID string

// Name is a session's full name, written tenant/id, or id for the default
// tenant.
type Name struct {
	Tenant  Tenant
	Session SessionID
}

// ValidToken reports whether s can be a tenant, a session id or a host: one to
// 64 of the characters A-Z, a-z, 0-9, "_" and "-". Such a token is safe as one
// token of a NATS subject, as a KV key and as a file name.
func ValidToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

// ParseName reads "[tenant/]id".
func ParseName(s string) (Name, error) {
	n := Name{Tenant: DefaultTenant, Session: SessionID(s)}
	if tenant, id, ok := strings.Cut(s, "/"); ok {
		n = Name{Tenant: Tenant(tenant), Session: SessionID(id)}
		if err := n.Validate(); err != nil {
			return Name{}, fmt.Errorf("%q, read as TENANT/ID: %w", s, err)
		}
	}
	if err := n.Validate(); err != nil {
		return Name{}, err
	}
	return n, nil
}

// Validate says which part of the name is not a valid token.
func (n Name) Validate() error {
	if !ValidToken(string(n.Tenant)) {
		return fmt.Errorf("tenant %q: want 1 to 64 of A-Z a-z 0-9 _ -", n.Tenant)
	}
	if !ValidToken(string(n.Session)) {
		return fmt.Errorf("session %q: want 1 to 64 of A-Z a-z 0-9 _ -", n.Session)
	}
	return nil
}

// ValidateNew says why a new session can't have the name. Older sessions may have names that
// begin with "-", which a command takes for a flag.
func (n Name) ValidateNew() error {
	if err := n.Validate(); err != nil {
		return err
	}
	if n.String()[0] == '-' || n.Session[0] == '-' {
		return fmt.Errorf("the name of a new session can't begin with -: %q", n)
	}
	return nil
}

// String gives the short form: the id alone for the default tenant.
func (n Name) String() string {
	if n.Tenant == DefaultTenant {
		return string(n.Session)
	}
	return string(n.Tenant) + "/" + string(n.Session)
}

// Key gives "tenant.session": the KV key and the two tokens of every subject.
func (n Name) Key() string { return string(n.Tenant) + "." + string(n.Session) }

// NameOfKey is the inverse of Key.
func NameOfKey(key string) (Name, error) {
	tenant, id, ok := strings.Cut(key, ".")
	if !ok {
		return Name{}, fmt.Errorf("key %q: want tenant.session", key)
	}
	n := Name{Tenant: Tenant(tenant), Session: SessionID(id)}
	return n, n.Validate()
}
