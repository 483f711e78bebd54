package run

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/archive"
	"github.com/diapause/diapause/services/fleet"
)

// archive makes what moves old revisions of the log to the store, nil without the keys for that, and what reads
// them there. stored says what a session's images take.
func (r ruling) archive(ctx context.Context, hosts *fleet.Fleet, stored func(schemas.Name, schemas.UID) (int64, bool)) (*archive.Archive, *archive.Reader, error) {
	heads, err := archive.OpenHeads(ctx, r.js, r.names)
	if err != nil {
		return nil, nil, err
	}
	known := func(host string) []ed25519.PublicKey { return r.keeper.Known("", host) }
	reads := &archive.Reader{Records: r.records, Heads: heads, Store: r.images, Known: known, Notes: r.log}
	if r.logKeys.Key == nil {
		return nil, reads, nil
	}
	reads.Identities = []age.Identity{r.logKeys.Key}
	if r.logKeys.Signer == nil {
		return nil, reads, nil
	}
	moves := archive.New(archive.Options{
		Log: r.records, Heads: heads, Store: r.images, Key: r.logKeys.Key, Signer: r.logKeys.Signer, Host: string(r.signs), Policy: r.of.Retention.Log, Least: 1 << 20,
		Known: known, Trusted: func(host string) []ed25519.PublicKey { return r.keeper.Trusted("", host) },
		Forget: func(ctx context.Context) (bool, error) { return allForget(ctx, hosts) },
		Moving: func(ctx context.Context, v statekv.Versioned) error { return r.noteStored(ctx, v, stored) }, Notes: r.log,
	})
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
		if h.Gone || !slices.Contains(h.Knows, schemas.FeatureForgets) {
			return false, nil
		}
	}
	return true, nil
}

// noteStored tells what a session's images take, which was summed up from revisions that leave NATS.
func (r ruling) noteStored(ctx context.Context, v statekv.Versioned, stored func(schemas.Name, schemas.UID) (int64, bool)) error {
	bytes, known := stored(v.Name(), v.UID)
	if !known || v.State == schemas.Deleted {
		return nil
	}
	return stream.Publisher{JS: r.js}.Event(ctx, schemas.Event{
		Type: "stored", Tenant: v.Tenant, Session: v.Session, UID: v.UID, Bytes: bytes, Actor: "janitor@" + r.name,
		Text: fmt.Sprintf("its images take %d bytes, as its log says before it is moved", bytes), At: time.Now().UTC(),
	})
}
