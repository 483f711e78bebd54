package run

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
	"github.com/diapause/diapause/services/fleet"
)

// archive makes what moves old revisions of the log to the store, and what reads them there. stored
// says what a session's images take.
func (h hostProcess) archive(ctx context.Context, m machine, hosts *fleet.Fleet, stored func(schemas.Name, schemas.UID) (int64, bool)) (*archive.Archive, *archive.Reader, error) {
	key, err := m.data.LogKey()
	if err != nil {
		return nil, nil, err
	}
	heads, err := archive.OpenHeads(ctx, m.js, m.names)
	if err != nil {
		return nil, nil, err
	}
	known := func(host string) []ed25519.PublicKey { return m.keeper.Known("", host) }
	moves := archive.New(archive.Options{
		Log: m.records, Heads: heads, Store: m.images, Key: key, Signer: m.keys.Signer, Host: string(m.data.Host()), Policy: h.Control.Retention.Log, Least: 1 << 20,
		Known: known, Trusted: func(host string) []ed25519.PublicKey { return m.keeper.Trusted("", host) },
		Forget: func(ctx context.Context) (bool, error) { return allForget(ctx, hosts) },
		Moving: func(ctx context.Context, v statekv.Versioned) error { return noteStored(ctx, m, v, stored) }, Notes: h.Log,
	})
	reads := &archive.Reader{Records: m.records, Heads: heads, Store: m.images, Known: known, Identities: []age.Identity{key}, Notes: h.Log}
	return moves, reads, nil
}

// allForget reports whether all hosts know of every removal, and don't take what has left the log
// for lost: hosts of an earlier version do, and one that is away may not have heard.
func allForget(ctx context.Context, f *fleet.Fleet) (bool, error) {
	hosts, err := f.Hosts(ctx)
	if err != nil {
		return false, err
	}
	for _, h := range hosts {
		if h.Gone || !h.ForgetsRemoved {
			return false, nil
		}
	}
	return true, nil
}

// noteStored tells what a session's images take, which was summed up from revisions that leave NATS.
func noteStored(ctx context.Context, m machine, v statekv.Versioned, stored func(schemas.Name, schemas.UID) (int64, bool)) error {
	bytes, known := stored(v.Name(), v.UID)
	if !known || v.State == schemas.Deleted {
		return nil
	}
	return stream.Publisher{JS: m.js}.Event(ctx, schemas.Event{
		Type: "stored", Tenant: v.Tenant, Session: v.Session, UID: v.UID, Bytes: bytes, Actor: "janitor@" + string(m.data.Host()),
		Text: fmt.Sprintf("its images take %d bytes, as its log says before it is moved", bytes), At: time.Now().UTC(),
	})
}
