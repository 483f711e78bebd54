package ingress

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// Target is a port of a session.
type Target struct {
	Name   schemas.Name // zero where UID is given
	UID    schemas.UID  // of a session whose name fits in no label
	Port   uint16
	Prefix string // of the path form: /s/TENANT/NAME/PORT; "" where the host name says it all
}

func (t Target) String() string { return fmt.Sprintf("port %d of session %s", t.Port, t.Name) }

// Why a request leads to no port; match with errors.Is.
var (
	ErrHost = errors.New("the host name isn't one of a session")
	ErrPath = errors.New("the path isn't one of a session")
)

// DefaultDomain is below which hosts are named PORT--NAME.TENANT. Browsers connect there to their own machine.
const DefaultDomain = "localhost"

const (
	separator = "--"
	// byUID is in the place of the name in a label that has the uid.
	byUID = "uid"
	// maxLabel is what DNS allows for one label.
	maxLabel = 63
	// portRoom is what the longest port takes in a label.
	portRoom = len("65535" + separator)
	pathForm = "/s/"
)

// Parse gives the port that a request is for, by its Host and its path as it was sent (escaped). Below
// DefaultDomain a host is PORT--NAME.TENANT; below any other it is one label, as Label gives it after
// PORT--. Hosts that aren't below the domain, such as the domain itself and addresses, have the path form
// /s/TENANT/NAME/PORT/…
func Parse(domain, host, path string) (Target, error) {
	host = hostOf(host)
	below, named := strings.CutSuffix(host, "."+domain)
	switch {
	case named && domain == DefaultDomain && strings.Contains(below, "."):
		return ofNames(below)
	case named:
		return ofLabel(below, domain == DefaultDomain)
	case host != domain && net.ParseIP(strings.Trim(host, "[]")) == nil && host != DefaultDomain:
		return Target{}, ErrHost
	}
	return ofPath(path)
}

// hostOf gives a Host header's name: without its port, in lower case.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// ofNames reads PORT--NAME.TENANT.
func ofNames(s string) (Target, error) {
	port, rest, ok := strings.Cut(s, separator)
	name, tenant, two := strings.Cut(rest, ".")
	n := schemas.Name{Tenant: schemas.Tenant(tenant), Session: schemas.SessionID(name)}
	p, valid := portOf(port)
	if !ok || !two || !valid || n.Validate() != nil {
		return Target{}, ErrHost
	}
	return Target{Name: n, Port: p}, nil
}

// ofLabel reads PORT--LABEL. Only the one label of a session is taken, so that it has one origin.
func ofLabel(s string, uidsAlone bool) (Target, error) {
	port, label, ok := strings.Cut(s, separator)
	p, valid := portOf(port)
	if !ok || !valid || len(s) > maxLabel {
		return Target{}, ErrHost
	}
	if uid, ok := strings.CutPrefix(label, byUID+separator); ok {
		if !schemas.ValidToken(uid) {
			return Target{}, ErrHost
		}
		return Target{UID: schemas.UID(uid), Port: p}, nil
	}
	id, tenant, both := strings.Cut(label, separator)
	if !both {
		tenant = string(schemas.DefaultTenant)
	}
	n := schemas.Name{Tenant: schemas.Tenant(tenant), Session: schemas.SessionID(id)}
	if uidsAlone || n.Validate() != nil {
		return Target{}, ErrHost
	}
	if canonical, byName := nameLabel(n); !byName || canonical != label {
		return Target{}, ErrHost
	}
	return Target{Name: n, Port: p}, nil
}

// ofPath reads /s/TENANT/NAME/PORT/…
func ofPath(path string) (Target, error) {
	rest, ok := strings.CutPrefix(path, pathForm)
	parts := strings.SplitN(rest, "/", 4)
	if !ok || len(parts) < 3 {
		return Target{}, ErrPath
	}
	n := schemas.Name{Tenant: schemas.Tenant(parts[0]), Session: schemas.SessionID(parts[1])}
	p, valid := portOf(parts[2])
	if !valid || n.Validate() != nil {
		return Target{}, ErrPath
	}
	return Target{Name: n, Port: p, Prefix: pathForm + strings.Join(parts[:3], "/")}, nil
}

// portOf reads a port in its one form: without a sign, and without zeros before it.
func portOf(s string) (uint16, bool) {
	p, err := strconv.ParseUint(s, 10, 16)
	return uint16(p), err == nil && p > 0 && strconv.FormatUint(p, 10) == s
}

// Host gives the host name of a port below a domain; Parse reads it.
func Host(domain string, n schemas.Name, uid schemas.UID, port uint16) string {
	prefix := strconv.Itoa(int(port)) + separator
	if domain == DefaultDomain && fitsNames(n) {
		return prefix + string(n.Session) + "." + string(n.Tenant) + "." + domain
	}
	label, byName := nameLabel(n)
	if !byName || domain == DefaultDomain {
		label = byUID + separator + string(uid)
	}
	return prefix + label + "." + domain
}

// nameLabel gives the label of a session by its name: NAME, or NAME--TENANT where the tenant isn't the
// default. ok is false where the name has what a label can't, or what would make it another's.
func nameLabel(n schemas.Name) (label string, ok bool) {
	label = string(n.Session)
	if n.Tenant != schemas.DefaultTenant {
		label += separator + string(n.Tenant)
	}
	return label, plain(string(n.Session)) && plain(string(n.Tenant)) && n.Session != byUID && len(label)+portRoom <= maxLabel
}

// plain reports whether a name can be a part of a label.
func plain(s string) bool {
	return lower(s) && !strings.Contains(s, "_") && !strings.Contains(s, separator) && s[0] != '-' && s[len(s)-1] != '-'
}

// fitsNames reports whether a session's names can be labels of their own: host names have no case.
func fitsNames(n schemas.Name) bool {
	return lower(string(n.Session)) && lower(string(n.Tenant)) && len(n.Session)+portRoom <= maxLabel && len(n.Tenant) <= maxLabel
}

func lower(s string) bool { return s == strings.ToLower(s) }
