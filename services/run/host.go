package run

import (
	"fmt"
	"log/slog"

	"filippo.io/age"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/events/direct"
	"github.com/diapause/diapause/events/lease"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/datadir"
	keyring "github.com/diapause/diapause/services/keys"
	"github.com/diapause/diapause/workers/activitydoor"
	"github.com/diapause/diapause/workers/drivers"
	"github.com/diapause/diapause/workers/recovery"
	"github.com/diapause/diapause/workers/shim"
	"github.com/diapause/diapause/workers/worker"
)

// machine is what the parts of this host share.
type machine struct {
	link
	data   *datadir.Dir
	creds  string // the file of credentials of its connection
	keys   hostKeys
	images objectstore.Store
	keeper *keyring.Keeper
	door   *activitydoor.Door // of sessions' activity; nil where the server takes it without credentials
}

// worker makes the worker of this host.
func (h hostProcess) worker(m machine, d *drivers.Set, held *lease.Holder) (*worker.Worker, error) {
	ledger, err := ledgerOf(m.data, h.Log)
	if err != nil {
		return nil, err
	}
	connections, err := h.Host.Direct.listen(h.Process)
	if err != nil {
		return nil, err
	}
	return worker.New(worker.Options{
		Host: m.data.Host(), NC: m.nc, JS: m.js, Names: m.names, Records: m.records, Images: m.images,
		Drivers: d.ByName, Lacks: d.Lacks, Identities: m.keys.reading(), Own: []age.Identity{m.keys.Own},
		Signer: m.keys.Signer, Trusted: m.keeper.Trusted, Keyring: m.keeper, Log: h.Log,
		Pages: m.data.Join("pages"), Recordings: m.data.Join("recordings"), Direct: connections, Ledger: ledger, Failpoints: m.points, Policy: m.policies.For,
		Lease:  held,
		Labels: h.Host.Labels, Version: h.Version, Slots: h.Host.Slots, Operations: h.Host.Operations, Load: worker.LoadWithDisk(m.data.Path()), Budget: h.Host.Budget, Dense: h.Host.Dense, SearchMemory: h.Host.SearchMemory,
	}), nil
}

// holder has the lease of this host.
func (m machine) holder(h hostProcess) *lease.Holder {
	return &lease.Holder{Store: m.leases, Host: m.data.Host(), Term: h.Host.Lease, Log: h.Log, Place: place(h.NATS.URL, m.data.Path())}
}

// place tells this data directory from a copy of it, on this machine or another. The server of an embedded NATS is
// where its data directory is, which is locked.
func place(url, data string) string {
	var st unix.Stat_t
	if url == "" || unix.Stat(data, &st) != nil {
		return ""
	}
	return fmt.Sprintf("%s %x:%x", shim.MachineBoot(), st.Dev, st.Ino)
}

// listen listens where clients are told to connect; nil if nowhere.
func (d Direct) listen(p Process) (*direct.Server, error) {
	if d.Advertise == "" {
		return nil, nil
	}
	s, err := direct.Listen(direct.Options{Advertise: d.Advertise, Listen: d.Listen, Log: p.Log})
	if err != nil {
		return nil, schemas.WithHint(err, "give --advertise-listen if this host can't listen at the address of --advertise, which clients dial")
	}
	fmt.Fprintf(p.Out, "clients connect to %s for forwarded ports, by TLS\n", s.Address())
	return s, nil
}

// ledgerOf opens the host's own memory of its sessions.
func ledgerOf(data *datadir.Dir, log *slog.Logger) (*recovery.Ledger, error) {
	l, damaged, err := recovery.Open(data.Join("ledger"), data.Host())
	if err != nil {
		return nil, err
	}
	for _, file := range damaged {
		log.Warn("the host's memory of a session was damaged, and is gone", "file", file)
	}
	return l, nil
}
