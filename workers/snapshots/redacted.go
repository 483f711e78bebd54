package snapshots

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/attach/backlog"
	"github.com/diapause/diapause/events/redact"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/seal"
	"github.com/diapause/diapause/schemas"
)

// outputSuffix ends the name of what a session printed last. redactedMark and a number are before it where something was taken out.
const (
	outputSuffix = ".age"
	redactedMark = ".redacted-"
)

// savedOutput is an object with what a session printed last.
type savedOutput struct {
	name string
	run  uint64 // whose it is
	tag  uint64 // higher ones have the place of lower ones; 0 of the first
}

// outputs lists what is kept of a session, the runs in their order, and of one run what counts last.
func (s *Store) outputs(ctx context.Context, r schemas.SessionRecord) (all []savedOutput, err error) {
	prefix := strings.TrimSuffix(image.OutputName(r.Tenant, r.Lineage, r.UID, 0), "0"+outputSuffix)
	err = s.Objects.List(ctx, prefix, func(i objectstore.Info) error {
		rest, ok := strings.CutSuffix(strings.TrimPrefix(i.Name, prefix), outputSuffix)
		digits, tag, tagged := strings.Cut(rest, redactedMark)
		is := savedOutput{name: i.Name}
		var runErr, tagErr error
		is.run, runErr = strconv.ParseUint(digits, 10, 64)
		if tagged {
			is.tag, tagErr = strconv.ParseUint(tag, 10, 64)
		}
		if ok && runErr == nil && tagErr == nil {
			all = append(all, is)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b savedOutput) int { return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.tag, b.tag)) })
	return all, err
}

// openOutput reads an object with what a session printed last.
func (s *Store) openOutput(ctx context.Context, name string) ([]byte, error) {
	in, err := s.Objects.Get(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	sealed, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return seal.Unseal(string(sealed), s.openers()...)
}

// lastOutput reads what a session printed last in its last run.
func (s *Store) lastOutput(ctx context.Context, r schemas.SessionRecord) ([]byte, error) {
	out, err := s.openOutput(ctx, outputName(r))
	if !errors.Is(err, objectstore.ErrNotFound) {
		return out, err
	}
	all, listErr := s.outputs(ctx, r)
	for _, is := range slices.Backward(all) {
		if listErr == nil && is.run == r.Generation {
			return s.openOutput(ctx, is.name)
		}
	}
	return nil, cmp.Or(listErr, err)
}

// RedactOutputs takes what match finds out of what is kept of the last outputs of a session that has ended, and says of how many. What
// was kept is deleted once what has its place is stored.
func (s *Store) RedactOutputs(ctx context.Context, r schemas.SessionRecord, match redact.Matcher, dry bool) (changed int, err error) {
	if r.Lineage == "" {
		return 0, nil
	}
	all, err := s.outputs(ctx, r)
	for i, is := range all {
		if err != nil {
			break
		}
		if i+1 < len(all) && all[i+1].run == is.run { // a crash left it
			if !dry {
				err = s.Objects.Delete(ctx, is.name)
			}
			continue
		}
		var one bool
		if one, err = s.redactOutput(ctx, r, is, match, dry); one {
			changed++
		}
	}
	if err != nil {
		return changed, fmt.Errorf("redact the last output of session %s: %w", r.Name(), err)
	}
	return changed, nil
}

func (s *Store) redactOutput(ctx context.Context, r schemas.SessionRecord, is savedOutput, match redact.Matcher, dry bool) (bool, error) {
	data, err := s.openOutput(ctx, is.name)
	if err != nil {
		return false, err
	}
	log, err := backlog.Decode(data, attach.OutputKept)
	if err != nil {
		return false, err
	}
	if found := redact.Log(log, match); !found || dry {
		return found, nil
	}
	to, err := s.sealers(ctx, r.Tenant)
	if err != nil {
		return false, err
	}
	sealed, err := seal.Seal(log.Encode(), to...)
	if err != nil {
		return false, err
	}
	name := strings.TrimSuffix(image.OutputName(r.Tenant, r.Lineage, r.UID, is.run), outputSuffix) + fmt.Sprintf("%s%08d%s", redactedMark, is.tag+1, outputSuffix)
	if err := s.Objects.Put(ctx, name, bytes.NewReader([]byte(sealed)), int64(len(sealed))); err != nil {
		return false, err
	}
	return true, s.Objects.Delete(ctx, is.name)
}
