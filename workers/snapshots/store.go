package snapshots

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// Records are the session records, as far as a Store reads them. *statekv.Store is one.
type Records interface {
	Watch(ctx context.Context, fn func(statekv.Versioned), caughtUp func()) error
	History(ctx context.Context, n schemas.Name) ([]statekv.Versioned, error)
	Log(ctx context.Context, fn func(statekv.Versioned) error) error
}

// Options is what a Store is made of. Host, Objects, Records, Signer and Log are needed.
type Options struct {
	Host    schemas.HostID
	Objects objectstore.Store
	Records Records
	Log     *slog.Logger

	Signer     ed25519.PrivateKey // signs images
	Identities []age.Identity     // open images, and what is sealed to their readers
	Own        []age.Identity     // open what is sealed to this host besides, and no image
	Recipients []age.Recipient    // of new lineage keys; unused with a Keyring
	// Trusted gives the keys that images of a tenant may be signed with; unused with a Keyring.
	Trusted func(tenant, signer string) []ed25519.PublicKey
	Keyring Keyring // may be nil

	// Pages is a directory for the pages of last images; they are in memory alone if it is "".
	Pages  string
	Budget image.Budget // see image.WriteOptions
	Dense  bool         // likewise
}

// Store reads and writes the snapshots of one host's sessions. It is safe for concurrent
// use; the calls for one session are serialised by the caller.
type Store struct {
	Options
	disk *pageFiles // nil without Pages

	mu    sync.Mutex
	bases map[schemas.UID]*base // by session: the pages of its last image, if they aren't in files
}

// New makes a Store. Without its directory for pages it works too, and says so in the log.
func New(o Options) *Store {
	s := &Store{Options: o, bases: map[schemas.UID]*base{}}
	s.disk = s.openFiles()
	return s
}

// Open opens a snapshot for a session: one of its own, or of the session it was forked from.
func (s *Store) Open(ctx context.Context, r schemas.SessionRecord, head schemas.Head) (*image.Reader, error) {
	lineage, err := LineageOf(r, head)
	if err != nil {
		return nil, err
	}
	expect := image.Expect{Tenant: r.Tenant, Lineage: lineage}
	if lineage == r.Lineage {
		expect.Session, expect.UID = r.Session, r.UID
	}
	if len(s.Identities) == 0 {
		return nil, &driver.Error{Kind: driver.Refused, Text: fmt.Sprintf("host %s has no identity that opens an image", s.Host),
			Hint: "resume the session on a host with an identity of its readers (`diapause key ls`), or start `diapause up` here with --identity-file"}
	}
	img, err := image.Open(ctx, s.Objects, head, image.ReadOptions{Identities: s.Identities, Trusted: s.trusts(ctx, r, head), Expect: expect})
	if err != nil {
		return nil, fmt.Errorf("open the image of session %s: %w", r.Name(), err)
	}
	return img, nil
}

// Prove reads all of a snapshot once more: see image.Prove.
func (s *Store) Prove(ctx context.Context, r schemas.SessionRecord, head schemas.Head) error {
	return image.Prove(ctx, s.Objects, head, image.ReadOptions{Trusted: s.trusts(ctx, r, head)})
}

// Image describes an image that Create begins.
type Image struct {
	Fingerprint schemas.Fingerprint // of the driver that captures
	Time        time.Time           // when the capture began
	Dense       bool                // make it small rather than fast, if Options don't say so already
	Step        func(context.Context, image.Step) error
}

// Create begins the image that a record's op asks for, with the record in it. readers are
// those that it is written for. The caller commits or aborts it.
func (s *Store) Create(ctx context.Context, rec statekv.Versioned, of Image) (w *image.Writer, readers image.Readers, err error) {
	if err := s.maySign(ctx, rec.Tenant); err != nil {
		return nil, readers, err
	}
	if readers, err = s.Readers(ctx, rec.Tenant); err != nil {
		return nil, readers, fmt.Errorf("begin image of %s: %w", rec.Name(), err)
	}
	w, err = image.Create(ctx, s.Objects, image.WriteOptions{
		Tenant: rec.Tenant, Session: rec.Session, UID: rec.UID, Lineage: rec.Lineage, Epoch: rec.Epoch, Seq: rec.Version,
		Parent: rec.Head, Base: s.baseFor(ctx, rec.SessionRecord), Budget: s.Budget, Dense: s.Dense || of.Dense,
		Recipients: readers.Recipients, KeyVersion: readers.Version, KeyGeneration: readers.Generation, FullSince: readers.FullSince,
		Signer: s.Signer, SignerName: s.Host, Trigger: rec.Op.Trigger, RunID: rec.Op.RunID, Description: rec.Op.Description,
		Op: rec.Op.ID, Fingerprint: of.Fingerprint, Time: of.Time, Step: of.Step,
	})
	if err != nil {
		return nil, readers, fmt.Errorf("begin image of %s: %w", rec.Name(), err)
	}
	if err := addRecord(w, rec.SessionRecord, of.Time); err != nil {
		w.Abort()
		return nil, readers, err
	}
	return w, readers, nil
}

// DeleteAll deletes every image of a session, its keys first.
func (s *Store) DeleteAll(ctx context.Context, r schemas.SessionRecord) error {
	if err := image.DeleteLineage(ctx, s.Objects, r.Tenant, r.Lineage); err != nil {
		return fmt.Errorf("delete the images of session %s: %w", r.Name(), err)
	}
	return nil
}

// Signed reads the header of every snapshot in the store that is signed by a key which its
// tenant trusts today, and calls add for each.
func (s *Store) Signed(ctx context.Context, add func(schemas.Head, schemas.ImageHeader)) error {
	places, _, err := image.Places(ctx, s.Objects)
	if err != nil {
		return err
	}
	for _, p := range places {
		trusted := s.Trusted
		if s.Keyring != nil {
			trusted = image.TrustedWhen(s.Keyring.Writers(ctx, p.Tenant), func() time.Time { return time.Time{} })
		}
		all, err := image.List(ctx, s.Objects, p.Tenant, p.Lineage, trusted)
		if err != nil {
			return err
		}
		for _, l := range all {
			if l.Err != nil {
				s.Log.Warn("ignored an image that can't be read", "image", l.Head.Name, "err", l.Err)
				continue
			}
			add(l.Head, l.Header)
		}
	}
	return nil
}

// LineageOf reads the lineage out of a head's name, and refuses one of another tenant.
func LineageOf(r schemas.SessionRecord, head schemas.Head) (string, error) {
	parts := strings.Split(head.Name, "/")
	if len(parts) != 4 || parts[0] != string(r.Tenant) {
		return "", fmt.Errorf("session %s: snapshot %q isn't one of tenant %s", r.Name(), head.Name, r.Tenant)
	}
	return parts[1], nil
}
