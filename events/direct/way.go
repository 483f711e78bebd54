package direct

import (
	"fmt"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
)

// The ways of a forwarded connection.
const (
	WayDirect = "direct" // to the host itself
	WayNATS   = "nats"   // through the NATS server
)

// Way is the way of connections to a host: what forward --json prints to stderr when connections go another way than the one before.
type Way struct {
	Session string         `json:"session"`
	Way     string         `json:"way"` // direct or nats
	Host    schemas.HostID `json:"host"`
	Address string         `json:"address,omitempty"` // of the host, if it gave one
	Reason  string         `json:"reason,omitempty"`  // why it isn't direct
}

func (w Way) String() string {
	if w.Way == WayDirect {
		return fmt.Sprintf("connections go directly to host %s at %s", w.Host, w.Address)
	}
	return fmt.Sprintf("connections to host %s go through NATS: %s", w.Host, w.Reason)
}

// directAgain is how long connections go through NATS after a direct one failed, so that not each of
// them waits for a host that can't be reached.
const directAgain = time.Minute

// Ways knows which way connections to each host go.
type Ways struct {
	mu     sync.Mutex
	failed map[schemas.HostID]failedWay
	told   Way // nothing before the first
}

type failedWay struct {
	Way
	until time.Time
}

// Before says whether a connection may be direct, and which way it goes if the host offers none.
func (w *Ways) Before(host schemas.HostID, now time.Time) (try bool, otherwise Way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.failed[host]; ok && now.Before(f.until) {
		return false, f.Way
	}
	return true, Way{Way: WayNATS, Host: host, Reason: "it takes no direct ones"}
}

// After says which way a connection goes after an attempt to make it directly.
func (w *Ways) After(host schemas.HostID, now time.Time, address string, err error) Way {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.failed, host)
		return Way{Way: WayDirect, Host: host, Address: address}
	}
	if w.failed == nil {
		w.failed = map[schemas.HostID]failedWay{}
	}
	f := failedWay{Way{Way: WayNATS, Host: host, Address: address, Reason: err.Error()}, now.Add(directAgain)}
	w.failed[host] = f
	return f.Way
}

// Changed reports whether a connection goes another way than the one before. The reason alone
// doesn't count.
func (w *Ways) Changed(to Way) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.told
	w.told = to
	return was.Way != to.Way || was.Host != to.Host || was.Address != to.Address
}
