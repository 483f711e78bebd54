package schemas

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// DefaultPart is the part that listens if none is named: each `diapause up`.
const DefaultPart = "up"

// ProxyProtocol is what a listener does with PROXY headers.
type ProxyProtocol string

// What a listener does with PROXY headers.
const (
	ProxyAccept ProxyProtocol = "accept" // each connection begins with one, of a load balancer
	ProxySend   ProxyProtocol = "send"   // each connection to the session begins with one
)

// ProxyProtocols lists them.
func ProxyProtocols() []ProxyProtocol { return []ProxyProtocol{ProxyAccept, ProxySend} }

// Listener is where a part takes TCP connections for one port of a session.
type Listener struct {
	Part    string          `json:"part"`    // up, or the name of a gateway
	Address string          `json:"address"` // HOST:PORT, or :PORT for every address of the part's machine
	Name    string          `json:"name"`    // of the session
	UID     UID             `json:"uid"`     // of the session: one that is made under the name later isn't reached
	Port    uint16          `json:"port"`    // of the session
	Proxy   []ProxyProtocol `json:"proxy_protocol,omitempty"`
	By      string          `json:"by"`
	Added   time.Time       `json:"added"`
}

// ListenerRecord is what is stored of a listener.
type ListenerRecord struct {
	Listener
	Removed time.Time `json:"removed,omitzero"`
	Change  string    `json:"change"` // fresh for each revision
}

// ListenRequest says where a part is to listen. The session is the request's.
type ListenRequest struct {
	Part    string          `json:"part"`
	Address string          `json:"address"`
	Port    uint16          `json:"port,omitempty"` // of ingress_add
	Proxy   []ProxyProtocol `json:"proxy_protocol,omitempty"`
}

// Check says what can't name a listener.
func (r ListenRequest) Check() error {
	if !ValidToken(r.Part) {
		return fmt.Errorf("part %q: want 1 to 64 of A-Z a-z 0-9 _ -", r.Part)
	}
	host, port, err := net.SplitHostPort(r.Address)
	n, number := strconv.ParseUint(port, 10, 16)
	_, ip := netip.ParseAddr(host)
	if err != nil || number != nil || n == 0 || host != "" && host != "localhost" && ip != nil {
		return fmt.Errorf("listen at %q: want ADDRESS:PORT, or :PORT for every address", r.Address)
	}
	return nil
}

// Validate says what can't be added.
func (r ListenRequest) Validate() error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.Port == 0 {
		return fmt.Errorf("port 0: want one from 1 to 65535")
	}
	for _, p := range r.Proxy {
		if !slices.Contains(ProxyProtocols(), p) {
			return fmt.Errorf("PROXY protocol %q: want one of %s", p, joined(ProxyProtocols()))
		}
	}
	return nil
}

// ListenerState is how a listener is.
type ListenerState string

// How a listener is.
const (
	ListenerOpen   ListenerState = "listening"
	ListenerFailed ListenerState = "failed" // it can't listen there, and tries again; or its session was deleted
	ListenerAway   ListenerState = "away"   // no such part answers
)

// ListenerView is a listener as `diapause ingress ls` shows it.
type ListenerView struct {
	Listener
	State ListenerState `json:"state"`
	Error string        `json:"error,omitempty"` // why it can't listen
}

// SubjectIngress is where a part is asked how its listeners are: with its name behind. The answer is a list of
// ListenerView.
const SubjectIngress = "diapause.v1.ingress"
