package image

import (
	"context"
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
	// every page is written again. A Base may serve several writers one after the
	// other, not concurrently.
	Base *Base

	// Key is the lineage key to encrypt to, its public half alone. Without it the
	// key is that of Base or else of Parent, or else a new one is made and
	// wrapped to Recipients.
	Key *LineageKey
	// Recipients can read the image: a new lineage key is wrapped to them, all of
	// them X25519 or hybrid post-quantum ones. KeyVersion grows with every change
	// of who they are.
	Recipients []age.Recipient
	KeyVersion uint64
	// KeyGeneration grows when a reader is removed, or a new key is wanted: an
	// image whose parent has a lower one gets a new lineage key. One whose parent's
	// is below FullSince is written in full.
	KeyGeneration, FullSince uint64

	Signer     ed25519.PrivateKey
	SignerName schemas.HostID // the host that captured

	Trigger     string
	RunID       string
	Description string
	Op          string
	Fingerprint schemas.Fingerprint
	Time        time.Time // of the capture; now if zero

	// Dense has all pages compressed as well as it can be done at some speed, in
	// the first image of a session too. Otherwise those that have only short repeats
	// are coded faster and a fifth larger, as long as the store keeps up.
	Dense bool
	// Budget bounds what matching against old packs costs later.
	Budget Budget

	// Step, if given, is called by Commit after each of its steps; its error is
	// Commit's, as if what the step has stored had been stored and no more.
	Step func(context.Context, Step) error

	cuts cuts // usual, if zero
}

// Step is a step of Commit.
type Step string

// The steps: each names what is durable then.
const (
	StepPacks  Step = "packs"
	StepKey    Step = "key" // and the packs
	StepHeader Step = "header"
)

// Budget says how far an image may be scattered over the packs of earlier ones. What
// is zero is as in DefaultBudget.
type Budget struct {
	// MinLive is the share of a pack, from 0 to 1, that the parent must still
	// refer to for its pages to be matched. Pages of others are written again, so
	// that the pack falls out of the lineage. More of it writes more, less of it
	// keeps more garbage: beside those of the last suspend, the packs of one image
	// take at most 1/MinLive of its size.
	MinLive float64
	// MaxPacks is how many packs the parent may refer to, if it would not have
	// more than half as many anyhow; from there on a full image is written. It
	// bounds what a resume has to open.
	MaxPacks int
}

// DefaultBudget is what is done where a budget says nothing. Measured over 200
// suspends with random changes of a hundredth and of a tenth of the pages between
// them: the packs of one image take 1.6 times a full one (1.8 at the most; 2.3 with
// a quarter live, 1.65 with a half), and 1.4 times the changed pages are written (1.2 with a
// quarter, 1.6 with a half). 256 packs is where changes of less than a
// half per cent get.
var DefaultBudget = Budget{MinLive: 0.4, MaxPacks: 256}

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
