package recordings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// storeRun stores what was spilled of a run. Each segment is taken out only after the note that it is stored, so that one which is stored
// again after a crash is the same. A disk that doesn't take the note leaves the segment: it is stored again later.
func (s *Spool) storeRun(ctx context.Context, dir string) (*End, error) {
	r, err := readRun(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	last, err := readLast(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	numbers, err := spilled(dir)
	room, keepRoom := s.room(dir)
	defer keepRoom()
	for _, n := range numbers {
		if last == nil || n > last.Number {
			stored, storeErr := s.storeSegment(ctx, dir, r, n, last, room)
			switch {
			case errors.Is(storeErr, errTaken):
				continue // the recorder needed its room
			case errors.Is(storeErr, recording.ErrCorrupt), errors.Is(storeErr, recording.ErrForged):
				s.Log.Warn("a part of a recording is lost", "uid", string(r.UID), "err", storeErr) // it never gets better
			case storeErr != nil:
				return nil, storeErr
			default:
				last = &stored
				if err := writeLast(dir, stored); err != nil {
					s.Log.Warn("could not note that a segment is stored", "uid", string(r.UID), "err", err)
					continue
				}
			}
		}
		if err := takeOut(dir, n); err != nil {
			s.Log.Warn("could not take out a segment that is stored", "uid", string(r.UID), "err", err)
		}
	}
	if err != nil {
		return nil, err
	}
	if s.Stored != nil && len(numbers) > 0 {
		s.Stored(schemas.Name{Tenant: r.Tenant, Session: r.Session}, r.UID)
	}
	if r.Keep > 0 && len(numbers) > 0 {
		if err := room.Trim(ctx, s.Objects, r.Place, r.Keep); err != nil {
			s.Log.Warn("could not shorten a recording", "uid", string(r.UID), "err", err) // the next time does
		}
	}
	return r.end(last), nil
}

// room gives what a run's recording takes in the store, as far as it is known, and what keeps that until the next time: while more may come of
// the run, no other host stores anything of it. Callers hold the session's lock.
func (s *Spool) room(dir string) (room *recording.Room, keep func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if room = s.rooms[dir]; room == nil {
		room = &recording.Room{}
	}
	return room, func() {
		more := live(dir)
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.rooms, dir); more {
			s.rooms[dir] = room
		}
	}
}

// end says where the recording is when a segment of the run was stored last, nil if none was. A key that isn't stored yet is no
// one's to go on with.
func (r run) end(last *recording.Ref) *End {
	end := &End{UID: r.UID, End: last, Key: r.Key, Generation: r.Generation, stored: last != nil}
	if last == nil {
		end.End = r.Previous
		if len(r.Keys) > 0 {
			end.Key = image.LineageKey{}
		}
	}
	return end
}

// errTaken: a segment isn't there any more.
var errTaken = errors.New("the segment was taken out")

// readList reads the commands of a segment. Without them it is stored as one that has none.
func (s *Spool) readList(dir string, n uint64, h *recording.Header) []byte {
	if h.List == nil {
		return nil
	}
	list, err := readSpilled(dir, n, ".commands")
	if err == nil {
		err = h.List.Holds(list)
	}
	if err != nil {
		s.Log.Warn("commands of a recording are lost", "uid", string(h.UID), "err", err)
		h.List = nil
	}
	return list
}

// readSpilled reads a part of a segment.
func readSpilled(dir string, n uint64, part string) ([]byte, error) {
	data, err := os.ReadFile(segmentFile(dir, n, part))
	if errors.Is(err, fs.ErrNotExist) {
		err = errTaken
	}
	if err != nil {
		return nil, fmt.Errorf("read a spilled segment: %w", err)
	}
	return data, nil
}

// storeSegment stores one segment, and counts what it takes; rather too much than too little, as when it has to be stored again.
func (s *Spool) storeSegment(ctx context.Context, dir string, r run, n uint64, last *recording.Ref, room *recording.Room) (recording.Ref, error) {
	var none recording.Ref
	h := recording.Header{UID: r.UID, Run: r.Run, Number: n, Previous: last, Signer: s.Host}
	data, err := readSpilled(dir, n, ".json")
	if err != nil {
		return none, err
	}
	if err := json.Unmarshal(data, &h.Body); err != nil {
		return none, fmt.Errorf("read a spilled segment: %w: %w", recording.ErrCorrupt, err)
	}
	sealed, err := readSpilled(dir, n, ".age")
	if err != nil {
		return none, err
	}
	if err := h.Holds(sealed); err != nil {
		return none, fmt.Errorf("read a spilled segment: %w", err)
	}
	list := s.readList(dir, n, &h)
	if last == nil {
		h.Previous = r.Previous
		if err := s.storeKeys(ctx, r); err != nil {
			return none, err
		}
	}
	clear, ref, err := h.Seal(s.Signer)
	room.Add(int64(len(clear)+len(sealed)), 0)
	if err == nil {
		var replaced bool
		if replaced, err = s.replaced(ctx, r, ref); replaced {
			return ref, nil // it was stored, and redacted since: it must not come back
		}
	}
	if err == nil && h.List != nil {
		room.Add(0, int64(len(clear)+len(list)))
		err = recording.PutList(ctx, s.Objects, r.Place, ref, append(slices.Clone(clear), list...))
		if errors.Is(err, recording.ErrCorrupt) || errors.Is(err, recording.ErrForged) { // something else has its name
			s.Log.Warn("commands of a recording are lost", "uid", string(r.UID), "err", err)
			h.List = nil
			clear, ref, err = h.Seal(s.Signer)
		}
	}
	if err == nil {
		err = recording.Put(ctx, s.Objects, r.Place, ref, append(clear, sealed...))
	}
	return ref, err
}

// replaced reports whether a segment was stored before, and has another one in its place. It is asked once for each run in the life
// of this process: what was stored without a note is from one before.
func (s *Spool) replaced(ctx context.Context, r run, at recording.Ref) (bool, error) {
	s.mu.Lock()
	is, known := s.redacted[r.Run]
	s.mu.Unlock()
	if !known {
		var err error
		if is, err = recording.Redacted(ctx, s.Objects, r.Place, s.Snapshots.Signers(ctx, r.Tenant)); err != nil {
			return false, err
		}
		s.mu.Lock()
		s.redacted[r.Run] = is
		s.mu.Unlock()
	}
	return is.Has(at), nil
}

func writeLast(dir string, ref recording.Ref) error {
	note, err := json.Marshal(ref)
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(dir, driver.LastFile), note)
}

// errDeleted: the keys of the session are deleted, and stay so.
var errDeleted = errors.New("the session is deleted")

// storeKeys stores the key of a run, which was wrapped to its readers when the run began. It takes it out again if the session
// was deleted meanwhile: its record says so before its keys are deleted, so one of the two sees the other.
func (s *Spool) storeKeys(ctx context.Context, r run) error {
	for _, k := range r.Keys {
		err := s.Objects.Put(ctx, k.Name, bytes.NewReader(k.Data), int64(len(k.Data)))
		if err != nil && !errors.Is(err, objectstore.ErrExists) {
			return fmt.Errorf("store the key of a recording: %w", err)
		}
	}
	gone, err := s.gone(ctx, r)
	if !gone && !errors.Is(err, statekv.ErrNoSession) {
		return err
	}
	for _, k := range r.Keys {
		if err := s.Objects.Delete(ctx, k.Name); err != nil {
			return fmt.Errorf("delete the key of a recording: %w", err)
		}
	}
	return errDeleted
}

// spilled lists the numbers of a run's segments that are complete, in their order.
func spilled(dir string) (numbers []uint64, err error) {
	all, err := os.ReadDir(dir)
	for _, e := range all {
		digits, ok := strings.CutSuffix(e.Name(), ".json")
		if n, numErr := strconv.ParseUint(digits, 10, 64); ok && numErr == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

func segmentFile(dir string, n uint64, part string) string {
	return filepath.Join(dir, fmt.Sprintf("%012d%s", n, part))
}

// takeOut removes a segment that is stored.
func takeOut(dir string, n uint64) error {
	for _, part := range []string{".json", ".age", ".commands"} { // without the first the others are none
		if err := os.Remove(segmentFile(dir, n, part)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func readLast(dir string) (*recording.Ref, error) {
	data, err := os.ReadFile(filepath.Join(dir, driver.LastFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var last recording.Ref
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	if err != nil {
		return nil, fmt.Errorf("read which segment was stored last: %w", err)
	}
	return &last, nil
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// over removes the folder of a run of which all is stored, if nothing more comes of it.
func over(dir string) error {
	left, err := spilled(dir)
	if err != nil || len(left) > 0 {
		return err
	}
	last, err := driver.LockRun(dir, true)
	if errors.Is(err, driver.ErrRecorded) {
		return nil
	}
	if err != nil {
		return err
	}
	defer last.Close()
	if left, err = spilled(dir); err != nil || len(left) > 0 {
		return err // it came before the lock was free
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(dir)) // if it was the last one
	return nil
}
