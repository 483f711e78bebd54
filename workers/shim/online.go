package shim

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/activityport"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/nameserver"
	"github.com/diapause/diapause/workers/network"
	"github.com/diapause/diapause/workers/publish"
)

// online is the private network of a session, and what is served there. All of it ends with this
// process.
type online struct {
	network *network.Network
	names   *nameserver.Server
	port    *activityport.Server // nil if nothing takes activity
	ports   *publish.Server      // of the host; nil in a trial
	first   network.View         // of the network before the session could change it
}

// serve lets the published ports be reached.
func (w *online) serve(v *clients) {
	if w == nil || w.ports == nil {
		return
	}
	w.ports.Serve(publish.Session{Dial: v.dial, Whole: func() bool { return !v.silent.Load() }, Reader: v.viewers.reader})
}

// close gives up the network of a session that is dead.
func (w *online) close() {
	if w != nil {
		w.network.Close()
	}
}

// leave gives up the network of a session that is dead, and what the worker has to end of it.
func (w *online) leave() []*os.File {
	if w == nil {
		return nil
	}
	return w.network.Leave()
}

// extnet is criu's name of a private network.
const extnet = "extnet"

// url is where the session finds a server for its activity.
func (w *online) url(hosts string) string {
	if w == nil || w.port == nil {
		return hosts
	}
	return activityport.URL(network.Service)
}

// goOnline makes the network and serves what belongs in it.
func goOnline(s Setup, o network.Options) (*online, error) {
	var err error
	if o.AllowOut, err = network.ParseAllow(s.Spec.AllowOut); err != nil {
		return nil, err
	}
	w := &online{}
	if s.Boot != schemas.BootTrial {
		if w.ports, err = publish.Listen(s.Spec.Publish); err != nil {
			return nil, err
		}
	}
	n, err := network.Make(o)
	if err != nil {
		w.ports.Close()
		return nil, noNetwork(err)
	}
	w.network = n
	err = n.Inside(func() (err error) {
		if w.names, err = nameserver.Listen(network.Service); err != nil || s.URL == "" && !s.Door {
			return err
		}
		w.port, err = activityport.Listen(network.Service)
		return err
	})
	if err != nil {
		w.ports.Close()
		n.Close()
		return nil, err
	}
	w.names.Serve(nameserver.HostServers)
	if w.port != nil {
		w.port.Serve(s.Name, s.upstream())
	}
	if !o.Locked {
		w.view(s)
	}
	return w, nil
}

// upstream is where the activity port leads.
func (s Setup) upstream() activityport.Upstream {
	if s.Door {
		return activityport.ToDoor(s.Data)
	}
	return activityport.ToServers(s.URL)
}

// pendingOnline is a network that is made beside other work.
type pendingOnline struct {
	made chan struct{} // closed when the rest is set
	w    *online
	err  error
}

// beginOnline makes the network while the boot goes on, until awaitOnline.
func (b *boot) beginOnline() {
	p := &pendingOnline{made: make(chan struct{})}
	b.pending = p
	go func() {
		defer close(p.made)
		p.w, p.err = goOnline(b.setup, network.Options{Isolated: b.setup.Boot == schemas.BootTrial, Locked: b.setup.Boot != schemas.BootClean})
	}()
}

// fitOnline has a network made, or not, by what the image says of it.
func (b *boot) fitOnline(private bool) {
	making := b.pending != nil
	switch {
	case private && !making:
		b.beginOnline()
	case !private && making:
		_ = b.awaitOnline() // it isn't needed
		b.online.close()
		b.online = nil
	}
}

// awaitOnline waits for the network that is being made, if one is.
func (b *boot) awaitOnline() error {
	p := b.pending
	if p == nil {
		return nil
	}
	<-p.made
	b.pending, b.online = nil, p.w
	return p.err
}

// noNetwork says why there is no network, and refuses what this host can't do at the next attempt
// either.
func noNetwork(err error) error {
	if !slices.ContainsFunc(lasting, func(no unix.Errno) bool { return errors.Is(err, no) }) {
		return fmt.Errorf("make the session's network: %w", err)
	}
	return &driver.Error{
		Kind: driver.Refused, Err: err, Text: "this host can't make private networks",
		Hint: "ask `diapause doctor` what is missing, or use --network host or none",
	}
}

// inherit passes the network to criu.
func (w *online) inherit(in *inheritance) error {
	if w == nil {
		return nil
	}
	fd, err := unix.FcntlInt(w.network.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("pass the session's network to criu: %w", err)
	}
	in.add(extnet, os.NewFile(uintptr(fd), extnet))
	return nil
}

// restored is called when criu has restored all and nothing has run: connections with the outside
// end, and packets move.
func (w *online) restored(s Setup) error {
	if w == nil {
		return nil
	}
	if _, err := w.network.DestroyOutside(); err != nil {
		return err
	}
	if err := w.network.Unlock(); err != nil {
		return err
	}
	w.view(s)
	return nil
}

// hold keeps the connections of a frozen session as they are until release.
func (w *online) hold() error {
	if w == nil {
		return nil
	}
	return w.network.Hold()
}

func (w *online) release() error {
	if w == nil {
		return nil
	}
	return w.network.Release()
}

// externalNetwork is what criu is told of the network that a process is in.
func externalNetwork(pid int) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st); err != nil {
		return "", fmt.Errorf("find the session's network: %w", err)
	}
	return fmt.Sprintf("net[%d]:%s", st.Ino, extnet), nil
}
