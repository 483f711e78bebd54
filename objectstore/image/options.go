package image

import (
	"crypto/ed25519"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/schemas"
)

// Head points at one snapshot: its object name and the digest of its header.
type Head = schemas.Head

// WriteOptions says what an image is of, and for whom.
type WriteOptions struct {
	Tenant  schemas.Tenant
	Session schemas.SessionID
	UID     schemas.UID
	Lineage string // 1 to 64 of A-Z a-z 0-9 _ -
	Epoch   uint64
	Seq     uint64

	// Parent is the snapshot that this one follows, if any. If it belongs to the
	// same lineage, its key is used on.
	Parent *Head
	// Base, if given, holds the pages of Parent to match against; without it
	// every page is written anew. A Base may serve several writers in turn, not
	// at the same time.
	Base *Base

	// Key is the lineage key to encrypt to, its public half alone. Without it the
	// key is that of Base or else of Parent, or else a new one is made and
	// wrapped to Recipients.
	Key *LineageKey
	// Recipients can read the image: a new lineage key is wrapped to them.
	Recipients []age.Recipient

	Signer     ed25519.PrivateKey
	SignerName schemas.HostID // the host that captured

	Trigger     string
	RunID       string
	Description string
	Op          string
	Fingerprint schemas.Fingerprint
	Time        time.Time // of the capture; now if zero

	cuts cuts // usual, if zero
}

// Trusted gives the keys that a signer of a tenant may have signed with; none if
// it is unknown or revoked.
type Trusted = func(tenant, signerName string) []ed25519.PublicKey

// ReadOptions says whom to trust and what to accept.
type ReadOptions struct {
	// Identities unwrap the lineage key.
	Identities []age.Identity
	Trusted    Trusted
	// Expect is what the header must say; anything else is ErrForged.
	Expect Expect
}

// Expect lists what a header must say. An empty field accepts anything.
type Expect struct {
	Tenant  schemas.Tenant
	Session schemas.SessionID
	UID     schemas.UID
	Lineage string
	Signer  schemas.HostID
	Epoch   *uint64
	Seq     *uint64
}

// Stats tells what an image took.
type Stats struct {
	LogicalBytes int64 // content of all files
	NewBytes     int64 // of that, pages that had to be stored, before compression
	StoredBytes  int64 // all objects that were written

	Pages        int64 // pages of all files
	ZeroPages    int64 // of these, all zero
	MatchedPages int64 // of these, already stored: repeats, and pages of the parent

	Full bool // nothing was matched against a parent

	Compress time.Duration // summed over all cores
	Encrypt  time.Duration // encryption and digests, likewise
	Store    time.Duration // within Store.Put, summed over concurrent ones
	Total    time.Duration // from Create to the end of Commit
}
