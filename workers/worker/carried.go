package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/recovery"
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

// carry puts the record into an image. What only the log can say isn't in it.
func carry(img entries, r schemas.SessionRecord, at time.Time) error {
	r.Op, r.Failure, r.Exit, r.Transition = nil, nil, nil, schemas.Transition{}
	data, err := encode(r)
	if err != nil {
		return err
	}
	e := image.Entry{Name: RecordEntry, Type: image.TypeFile, Mode: 0o600, MTime: at.UnixNano(), Size: int64(len(data))}
	return img.Add(e, bytes.NewReader(data))
}

// carried reads the record out of the image that r's head names.
func (w *Worker) carried(ctx context.Context, r schemas.SessionRecord) (schemas.SessionRecord, error) {
	var out schemas.SessionRecord
	img, err := w.openImage(ctx, r, *r.Head)
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

// complete gives a record that nobody remembers what its image remembers.
func (w *Worker) complete(ctx context.Context, v *recovery.Verdict) {
	r := v.Record
	if r.Spec != "" || r.Head == nil || len(w.Identities) == 0 || r.State == schemas.Deleted {
		return
	}
	was, err := w.carried(ctx, r)
	if err != nil || was.Spec == "" {
		w.Log.Warn("how a session was started can't be read from its image", "session", r.Name().String(), "err", err)
		return
	}
	r.Class, r.Driver, r.Keeps, r.MadeBy, r.Program, r.Spec = was.Class, was.Driver, was.Keeps, was.MadeBy, was.Program, was.Spec
	r.Idle, r.TTY, r.OnLoss, r.OnBreaker, r.Created = was.Idle, was.TTY, was.OnLoss, was.OnBreaker, was.Created
	v.Record, v.Missing = r, "how it was started is in its image"
}
