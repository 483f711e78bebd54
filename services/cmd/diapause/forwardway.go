package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/diapause/diapause/schemas"
)

// The ways of a forwarded connection.
const (
	wayDirect = "direct" // to the host itself
	wayNATS   = "nats"   // through the NATS server
)

// way is what forward --json prints to stderr when connections go another way than the one before.
type way struct {
	Session string         `json:"session"`
	Way     string         `json:"way"` // direct or nats
	Host    schemas.HostID `json:"host"`
	Address string         `json:"address,omitempty"` // of the host, if it gave one
	Reason  string         `json:"reason,omitempty"`  // why it isn't direct
}

func (w way) String() string {
	if w.Way == wayDirect {
		return fmt.Sprintf("connections go directly to host %s at %s", w.Host, w.Address)
	}
	return fmt.Sprintf("connections to host %s go through NATS: %s", w.Host, w.Reason)
}

// directAgain is how long connections go through NATS after a direct one failed, so that not each of
// them waits for a host that can't be reached.
const directAgain = time.Minute

// ways knows which way connections to each host go.
type ways struct {
	mu     sync.Mutex
	failed map[schemas.HostID]failedWay
	told   way // nothing before the first
}

type failedWay struct {
	way
	until time.Time
}

// before says whether a connection may be direct, and which way it goes if the host offers none.
func (w *ways) before(host schemas.HostID, now time.Time) (try bool, otherwise way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.failed[host]; ok && now.Before(f.until) {
		return false, f.way
	}
	return true, way{Way: wayNATS, Host: host, Reason: "it takes no direct ones"}
}

// after says which way a connection goes after an attempt to make it directly.
func (w *ways) after(host schemas.HostID, now time.Time, address string, err error) way {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.failed, host)
		return way{Way: wayDirect, Host: host, Address: address}
	}
	if w.failed == nil {
		w.failed = map[schemas.HostID]failedWay{}
	}
	f := failedWay{way{Way: wayNATS, Host: host, Address: address, Reason: err.Error()}, now.Add(directAgain)}
	w.failed[host] = f
	return f.way
}

// changed reports whether a connection goes another way than the one before. The reason alone
// doesn't count.
func (w *ways) changed(to way) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.told
	w.told = to
	return was.Way != to.Way || was.Host != to.Host || was.Address != to.Address
}
