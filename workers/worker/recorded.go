package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/connect"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/recordings"
)

// recordedFence is the right to have a session run, with its terminal recorded if it is to be. from is the image that it is restored
// from, if it is. release is called when the session runs, or doesn't.
func (s *starter) recordedFence(ctx context.Context, d driver.Driver, r schemas.SessionRecord, spec schemas.Spec, from driver.Source) (f driver.Fence, release func()) {
	f = s.hosting.fence(r)
	if _, ok := d.(driver.Recorder); !ok {
		return f, func() {}
	}
	if f.Record, release = s.recordings.Begin(ctx, r, spec, from); f.Record != nil {
		f.Record.Redact = s.policy(r).Redact == schemas.RedactRecording
	}
	return f, release
}

// addEnd stores what was recorded of a captured session, and puts into its image where that ends.
func addEnd(ctx context.Context, to *recordings.Spool, r schemas.SessionRecord, img interface {
	Add(e image.Entry, content io.Reader) error
}, at time.Time) error {
	end, err := to.Store(ctx, r.UID)
	if err != nil || end == nil {
		return err
	}
	data, err := json.Marshal(end)
	if err != nil {
		return fmt.Errorf("encode where the recording is: %w", err)
	}
	return img.Add(image.Entry{Name: recordings.EndEntry, Type: image.TypeFile, Mode: 0o600, MTime: at.UnixNano(), Size: int64(len(data))}, bytes.NewReader(data))
}

// sealWait is how long one who reads waits for what isn't on the disk yet.
const sealWait = 5 * time.Second

// recorded gives what was recorded of a session since a moment, up to now if it runs here.
func (w *Worker) recorded(ctx context.Context, r schemas.SessionRecord, since time.Time) (connect.Recording, error) {
	w.sealRecorded(ctx, r)
	return w.recordings.Open(ctx, r, recording.Part{Since: since})
}

// sealRecorded has what is recorded of a session sealed up to now, if it runs here.
func (w *Worker) sealRecorded(ctx context.Context, r schemas.SessionRecord) {
	if rec, ok := w.Drivers[r.Driver].(driver.Recorder); ok && r.State == schemas.Running {
		soon, cancel := context.WithTimeout(ctx, sealWait)
		defer cancel()
		if err := rec.SealRecorded(soon, r.UID); err != nil { // what it holds of its output is read from it then
			w.Log.Debug("could not have a recording sealed", r.Logged("err", err)...)
		}
	}
}

// typed gives the commands of a session's terminal, the last one first, up to now if it runs here.
func (w *Worker) typed(ctx context.Context, r schemas.SessionRecord) (connect.Commands, error) {
	w.sealRecorded(ctx, r)
	return w.recordings.Commands(ctx, r)
}

// recordedFrom gives what was recorded of a session from a position in its output on.
func (w *Worker) recordedFrom(ctx context.Context, r schemas.SessionRecord, from int64) (connect.Recording, error) {
	return w.recordings.Open(ctx, r, recording.Part{From: from})
}

// imports gives what takes in recordings that were made elsewhere, for sessions of a driver whose terminals are recorded; nil if this
// host has none.
func (w *Worker) imports() connect.Importer {
	for _, name := range slices.Sorted(maps.Keys(w.Drivers)) {
		if _, records := w.Drivers[name].(driver.Recorder); records && w.Recordings != "" {
			return func(ctx context.Context, n schemas.Name, r io.Reader) (connect.Import, error) {
				i, err := w.recordings.Imports.Take(ctx, n, name, r)
				if err != nil {
					return nil, err
				}
				return i, nil
			}
		}
	}
	return nil
}
