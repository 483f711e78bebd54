package embedded

import (
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nats-server/v2/server/ats"
)

// The server's clock for its caches, ats.AccessTime, is set ten times a second as long as there is a stream, and wakes threads
// each time: more than half of what an idle `up` costs. A second or two are fine enough, as caches live for 10 seconds.

//go:linkname serverClock github.com/nats-io/nats-server/v2/server/ats.utime
var serverClock atomic.Int64

//go:linkname serverClockEnd github.com/nats-io/nats-server/v2/server/ats.done
var serverClockEnd chan struct{}

// clockEvery is between two settings of the server's clock. Those 10 seconds must be no multiple of it: while a cache is
// exactly that old by the clock, the server looks again each tenth of a second.
const clockEvery = 1500 * time.Millisecond

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
