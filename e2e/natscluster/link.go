package natscluster

import (
	"net"
	"sync"
)

// Link carries connections from an address of its own to a target, until it is
// told not to. It is safe for concurrent use.
type Link struct {
	listener net.Listener

	mu      sync.Mutex
	moved   *sync.Cond // stalled or closed has changed
	target  string     // refuses while empty
	stalled bool
	cut     bool
	closed  bool
	conns   map[net.Conn]struct{}
	wg      sync.WaitGroup
}

func newLink() (*Link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &Link{listener: l, conns: map[net.Conn]struct{}{}}
	k.moved = sync.NewCond(&k.mu)
	k.wg.Go(k.serve)
	return k, nil
}

// Addr is where the link takes connections, "host:port".
func (k *Link) Addr() string { return k.listener.Addr().String() }

func (k *Link) aim(target string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.target = target
}

// Stall keeps back everything that is sent from now on, in both directions, as a
// stopped process or a lost route does: no one is told.
func (k *Link) Stall() { k.set(func() { k.stalled = true }) }

// Cut closes what is connected, and refuses what comes.
func (k *Link) Cut() {
	k.set(func() { k.cut = true })
	k.Drop()
}

// Heal lets everything through again. What was stalled arrives now.
func (k *Link) Heal() { k.set(func() { k.stalled, k.cut = false, false }) }

// Drop closes what is connected; new connections are taken.
func (k *Link) Drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.conns {
		c.Close()
	}
}

func (k *Link) close() {
	k.set(func() { k.closed = true })
	k.listener.Close()
	k.Drop()
	k.wg.Wait()
}

func (k *Link) set(fn func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fn()
	k.moved.Broadcast()
}

func (k *Link) serve() {
	for {
		from, err := k.listener.Accept()
		if err != nil {
			return
		}
		k.wg.Go(func() { k.join(from) })
	}
}

// join connects what came with the target.
func (k *Link) join(from net.Conn) {
	defer from.Close()
	k.mu.Lock()
	target, refuse := k.target, k.cut || k.closed
	k.mu.Unlock()
	if refuse || target == "" {
		return
	}
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	if !k.keep(from, to) {
		return
	}
	defer k.forget(from, to)
	var both sync.WaitGroup
	both.Go(func() { k.copy(to, from) })
	both.Go(func() { k.copy(from, to) })
	both.Wait()
}

func (k *Link) keep(conns ...net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range conns {
		k.conns[c] = struct{}{}
	}
	return !k.cut && !k.closed
}

func (k *Link) forget(conns ...net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range conns {
		delete(k.conns, c)
	}
}

func (k *Link) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !k.pass() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the link is stalled. It is false if the link is closed.
func (k *Link) pass() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.stalled && !k.closed && !k.cut {
		k.moved.Wait()
	}
	return !k.closed && !k.cut
}
