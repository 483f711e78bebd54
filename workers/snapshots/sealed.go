package snapshots

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"filippo.io/age"

	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// openers are the identities for what is sealed to this host: how sessions are to be
// started, and what they printed last.
func (s *Store) openers() []age.Identity { return slices.Concat(s.Own, s.Identities) }

// Spec opens the sealed spec of a session.
func (s *Store) Spec(r schemas.SessionRecord) (schemas.Spec, error) {
	data, err := seal.Unseal(r.Spec, s.openers()...)
	if err != nil {
		return schemas.Spec{}, &driver.Error{Kind: driver.Refused,
			Text: fmt.Sprintf("host %s can't open the spec of session %s", s.Host, r.Name()), Err: err, Hint: "look whether the host's identity has changed"}
	}
	var spec schemas.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return schemas.Spec{}, &driver.Error{Kind: driver.Refused, Text: "decode the spec of session " + r.Name().String(), Err: err}
	}
	spec.Publish = r.Publish // a fork has others than its origin
	return spec, nil
}

// SaveOutput stores what an ended session printed last, sealed to its tenant's readers: as much
// as can be sealed.
func (s *Store) SaveOutput(ctx context.Context, r schemas.SessionRecord, out []byte) error {
	to, err := s.sealers(ctx, r.Tenant)
	if err != nil {
		return err
	}
	sealed, err := seal.Seal(backlog.Last(out, seal.MaxSize), to...)
	if err != nil {
		return err
	}
	return s.Objects.Put(ctx, outputName(r), bytes.NewReader([]byte(sealed)), int64(len(sealed)))
}

// Output gives what a session that isn't on its host printed last: what was stored when it
// ended, or else what the given entry of its last snapshot has.
func (s *Store) Output(ctx context.Context, r schemas.SessionRecord, entry string) ([]byte, error) {
	if r.State == schemas.Exited {
		return s.savedOutput(ctx, r)
	}
	if r.Head == nil {
		return nil, fmt.Errorf("session %s is %s and has no snapshot: its output is gone", r.Name(), r.State)
	}
	img, err := s.Open(ctx, r, *r.Head)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	in, err := img.Open(entry)
	if err != nil {
		return nil, fmt.Errorf("read the output of session %s: %w", r.Name(), err)
	}
	defer in.Close()
	return io.ReadAll(in)
}

func (s *Store) savedOutput(ctx context.Context, r schemas.SessionRecord) ([]byte, error) {
	out, err := s.lastOutput(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("read the output of session %s: %w", r.Name(), err)
	}
	return out, nil
}

func outputName(r schemas.SessionRecord) string {
	return image.OutputName(r.Tenant, r.Lineage, r.UID, r.Generation)
}
