package embedded

import (
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nats-server/v2/server/ats"
)

// The server's clock for its caches, ats.AccessTime, is set ten times a second as long as there is a stream, and wakes threads
// each time: more than half of what an idle `up` costs. A second is fine enough, as caches live for 2 seconds and more.

//go:linkname serverClock github.com/nats-io/nats-server/v2/server/ats.utime
var serverClock atomic.Int64

//go:linkname serverClockEnd github.com/nats-io/nats-server/v2/server/ats.done
var serverClockEnd chan struct{}

// clockEvery is between two settings of the server's clock.
const clockEvery = time.Second

// slowClock sets the server's clock in the server's stead, for all servers of this process and until it ends.
var slowClock = sync.OnceFunc(func() {
	ats.Register() // the first starts what sets the clock; no other is the last, which ends it
	serverClockEnd <- struct{}{}
	go func() {
		for now := range time.Tick(clockEvery) {
			serverClock.Store(now.UnixNano())
		}
	}()
})
