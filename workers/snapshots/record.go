package snapshots

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
)

// RecordEntry is the entry of an image that has the session's record as it stood: how it
// is to be run, sealed as it is in the log, and under what rules. It is what is needed when
// every record is lost.
const RecordEntry = "record/session.json"

// maxRecord bounds what is read of it, in bytes.
const maxRecord = 16 << 20

// entries are those of an image that is written.
type entries interface {
	Add(e image.Entry, content io.Reader) error
}

// addRecord puts the record into an image. What only the log can say isn't in it.
func addRecord(img entries, r schemas.SessionRecord, at time.Time) error {
	r.Op, r.Failure, r.Exit, r.Transition = nil, nil, nil, schemas.Transition{}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of session %s: %w", r.Name(), err)
	}
	e := image.Entry{Name: RecordEntry, Type: image.TypeFile, Mode: 0o600, MTime: at.UnixNano(), Size: int64(len(data))}
	return img.Add(e, bytes.NewReader(data))
}

// Record reads the record out of the image that r's head names.
func (s *Store) Record(ctx context.Context, r schemas.SessionRecord) (schemas.SessionRecord, error) {
	var out schemas.SessionRecord
	img, err := s.Open(ctx, r, *r.Head)
	if err != nil {
		return out, err
	}
	defer img.Close()
	in, err := img.Open(RecordEntry)
	if err != nil {
		return out, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxRecord))
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("read the record in image %s: %w", r.Head.Name, err)
	}
	if out.UID != r.UID {
		return out, fmt.Errorf("the record in image %s is of session %s, not of %s", r.Head.Name, out.UID, r.UID)
	}
	return out, nil
}
