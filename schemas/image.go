package schemas

import "time"

// ImageVersion is the version of the snapshot format that this code writes.
const ImageVersion = 1

// Head points at one committed snapshot: the session record's head is the one
// authority on which image of a session is valid.
type Head struct {
	// Name is the object name of the signed header:
	// "<tenant>/<lineage>/snaps/<epoch>-<seq>".
	Name string `json:"name"`
	// Digest is the SHA-256, in lower-case hex, of the clear header: the first
	// two lines of that object, line ends included.
	Digest string `json:"digest"`
}

// ImageHeader is the clear, signed part of a snapshot: all that listing,
// retention and collection need. It is stored as one line of JSON.
type ImageHeader struct {
	Version int       `json:"version"` // ImageVersion
	Tenant  Tenant    `json:"tenant"`
	Session SessionID `json:"session"`
	UID     UID       `json:"uid"`
	Lineage string    `json:"lineage"` // 1 to 64 of A-Z a-z 0-9 _ -
	Epoch   uint64    `json:"epoch"`
	Seq     uint64    `json:"seq"`              // orders the snapshots of one epoch
	Parent  *Head     `json:"parent,omitempty"` // the snapshot that this one follows

	Signer      HostID      `json:"signer"`                // the host that captured and signed it
	Op          string      `json:"op,omitempty"`          // the operation that asked for it
	Trigger     string      `json:"trigger,omitempty"`     // why it was taken: "idle", "checkpoint", …
	RunID       string      `json:"run_id,omitempty"`      // the caller's own name for the run
	Description string      `json:"description,omitempty"` // the caller's own words
	Time        time.Time   `json:"time"`                  // when the capture was made
	Fingerprint Fingerprint `json:"fingerprint"`           // what the restoring host must offer

	// KID names the lineage key that the index and new packs are encrypted to:
	// the first 16 hex digits of SHA-256 over Recipient.
	KID       string `json:"kid"`
	Recipient string `json:"recipient"` // that key's public half, an age recipient
	// KeyGeneration is the tenant's, as of this snapshot: the next one gets a new
	// lineage key if it has grown since.
	KeyGeneration uint64 `json:"key_generation,omitempty"`

	Index ImageObject `json:"index"` // the encrypted index, which follows the header in the same object
	Packs []ImagePack `json:"packs"` // every pack that the index refers to, in the index's order

	Entries      int64 `json:"entries"`       // files, directories, links and the like
	LogicalBytes int64 `json:"logical_bytes"` // content of all files, zeros and repeats included
	NewBytes     int64 `json:"new_bytes"`     // content that no earlier snapshot held, before compression
	StoredBytes  int64 `json:"stored_bytes"`  // what this snapshot added to the store, all its objects
}

// ImageObject is the size and digest of something stored.
type ImageObject struct {
	Size   int64  `json:"size"`             // bytes
	SHA256 string `json:"sha256,omitempty"` // lower-case hex, over the bytes as stored
}

// ImagePack names one pack of encrypted pages and the ids of its pages.
type ImagePack struct {
	Name string `json:"name"` // 32 hex digits; the object is "<tenant>/<lineage>/packs/<name>.age"
	KID  string `json:"kid"`  // the lineage key that it is encrypted to
	ImageObject
	// Spans is a pack's digest in the place of SHA256, which only images of the first
	// weeks have: SHA-256, in lower-case hex, over a line for each MiB of the pack as
	// stored, that MiB's BLAKE3 in lower-case hex.
	Spans string      `json:"spans_sha256,omitempty"`
	Pages int64       `json:"pages"` // 4 KiB pages that it holds
	IDs   ImageObject `json:"ids"`   // the object "<tenant>/<lineage>/packs/<name>.ids.age"
}
