package schemas

import "time"

// TenantKeys says who reads the images of a tenant and who may write them: all
// that is public of it, and no secret. One record is every tenant's, with the
// hosts in it; a tenant's own adds to that. The revisions of its key are its log.
type TenantKeys struct {
	Version uint64 `json:"version"`          // 1 for the first record of the key, then without gaps
	Tenant  Tenant `json:"tenant,omitempty"` // empty: of every tenant
	// Generation grows when a new image needs a new lineage key: a reader was
	// removed, or an administrator asked for it. It is compared across the tenant's own
	// record and every tenant's; the higher one counts.
	Generation uint64 `json:"generation,omitempty"`
	// FullSince is the generation that images refer to nothing older than; 0 if
	// they may.
	FullSince uint64      `json:"full_since,omitempty"`
	Readers   []KeyReader `json:"readers,omitempty"`
	Writers   []KeyWriter `json:"writers,omitempty"`
	Change    KeyChange   `json:"change"` // what made this revision
}

// What a reader's key is used for.
const (
	UseRead   = "read"   // opens images
	UseEscrow = "escrow" // opens images too, and is kept away from the hosts, for recovery
	UseStart  = "start"  // of a host that writes images and can't open them: opens how its sessions are started
)

// KeyReader is a recipient.
type KeyReader struct {
	Recipient string    `json:"recipient"` // of age: "age1…", or "age1pq1…" if it is post-quantum
	Name      string    `json:"name"`
	Use       string    `json:"use"`            // read, escrow, start
	Host      HostID    `json:"host,omitempty"` // that registered it as its own
	Added     time.Time `json:"added"`
	By        string    `json:"by"`
	Removed   time.Time `json:"removed,omitzero"`
}

// KeyWriter is a key that a host signs images with.
type KeyWriter struct {
	Host    HostID    `json:"host"`
	Key     string    `json:"key"` // base64 of the Ed25519 public key
	Added   time.Time `json:"added"`
	By      string    `json:"by"`
	Revoked time.Time `json:"revoked,omitzero"` // what it signed and was recorded before stays valid
}

// KeyChange is one change of a TenantKeys record.
type KeyChange struct {
	ID    string    `json:"id"`   // fresh for every attempt; finds an attempt whose answer was lost
	Type  string    `json:"type"` // registered, added, removed, rotated, trusted, revoked
	Text  string    `json:"text"`
	Actor string    `json:"actor"`
	At    time.Time `json:"at"`
}

// KeyRequest is what a client asks of a tenant's keys; each verb uses the fields
// it needs.
type KeyRequest struct {
	Recipient string `json:"recipient,omitempty"` // or its name, to remove it
	Name      string `json:"name,omitempty"`
	Escrow    bool   `json:"escrow,omitempty"`
	Rewrite   bool   `json:"rewrite,omitempty"` // the next images refer to nothing older
	Force     bool   `json:"force,omitempty"`
	Host      HostID `json:"host,omitempty"`
	Key       string `json:"key,omitempty"` // base64 of an Ed25519 public key
}

// KeysView is what clients see of a tenant's keys. The names are stable.
type KeysView struct {
	Tenant     Tenant      `json:"tenant,omitempty"` // empty: every tenant's
	Generation uint64      `json:"generation"`
	FullSince  uint64      `json:"full_since"`
	Kind       string      `json:"kind"`    // of lineage keys from now on: classic or post-quantum
	Readers    []KeyReader `json:"readers"` // every tenant's and the tenant's own, without those removed
	Writers    []KeyWriter `json:"writers"` // likewise, with those revoked
	Lineages   int         `json:"lineages"`
	Keys       int         `json:"keys"`   // lineage keys of these
	Behind     int         `json:"behind"` // of them, not wrapped to exactly these readers yet
	Locked     int         `json:"locked"` // of them, without an identity here that opens them
	Wrapped    int         `json:"wrapped"`
	Text       []string    `json:"text,omitempty"` // what a person should know of a change
}
