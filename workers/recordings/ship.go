package recordings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// lastFile names the last segment of a run that was stored.
const lastFile = "last"

// Store stores all that was spilled of a session, and says where its recording is now; nil if this host
// records nothing of it. A run that can't be stored keeps no other; the error is that of the run of which more may come,
// or else of the last one.
func (s *Spool) Store(ctx context.Context, uid schemas.UID) (*End, error) {
	if s.Dir == "" {
		return nil, nil
	}
	unlock, err := s.lock(ctx, uid)
	if err != nil {
		return nil, err
	}
	defer unlock()
	runs, err := s.runs(uid)
	if err != nil {
		return nil, fmt.Errorf("store the recording of session %s: %w", uid, err)
	}
	var is outcome
	for _, dir := range runs {
		o := outcome{live: live(dir)}
		o.end, o.err = s.storeRun(ctx, dir)
		if errors.Is(o.err, errUnreadable) {
			s.setAside(dir, o)
			continue
		}
		if o.rank() >= is.rank() {
			is, o = o, is
		}
		if o.err != nil {
			s.Log.Warn("could not store the rest of a run yet", "uid", string(uid), "err", o.err)
		}
	}
	if is.err != nil {
		return nil, fmt.Errorf("store the recording of session %s: %w", uid, is.err)
	}
	return is.end, nil
}

// stored says where a session's recording is by what is stored already.
func (s *Spool) stored(uid schemas.UID) (*End, error) {
	runs, err := s.runs(uid)
	var is outcome
	for _, dir := range runs {
		r, err := readRun(dir)
		if err != nil {
			continue // Store says so
		}
		last, err := readLast(dir)
		if err != nil {
			continue
		}
		if o := (outcome{end: r.end(last), live: live(dir)}); o.rank() >= is.rank() {
			is = o
		}
	}
	return is.end, err
}

// outcome is what came of storing a run.
type outcome struct {
	end  *End
	err  error
	live bool
}

// rank is higher for a run that rather has the end of the recording. One of which nothing came, and nothing will, is an
// attempt that failed: it says only where the recording was before it.
func (o outcome) rank() int {
	switch {
	case o.live:
		return 3
	case o.err != nil, o.end != nil && o.end.stored:
		return 2
	case o.end != nil:
		return 1
	}
	return 0
}

// live reports whether more segments may come of a run.
func live(dir string) bool {
	last, err := driver.LockRun(dir, true)
	if err == nil {
		last.Close()
	}
	return errors.Is(err, driver.ErrRecorded)
}

// errUnreadable: it can't be known to what a run belongs.
var errUnreadable = errors.New("the description of the run can't be read")

// asideSuffix is that of the folder of a run that can't be read: it is no run any more, and goes with the session.
const asideSuffix = ".unreadable"

// setAside puts the folder of a run that can't be read out of the way. What a crash left before there were segments is removed.
func (s *Spool) setAside(dir string, o outcome) {
	s.Log.Error("a run of a recording can't be stored", "dir", dir, "err", o.err)
	if o.live {
		return // its shim keeps its room bounded
	}
	left, err := spilled(dir)
	if err == nil && len(left) == 0 {
		err = os.RemoveAll(dir)
	} else if err == nil {
		err = os.Rename(dir, dir+asideSuffix)
	}
	if err != nil {
		s.Log.Warn("could not put it out of the way", "dir", dir, "err", err)
	}
}

// Remove forgets what was spilled of a session that is deleted, and not stored.
func (s *Spool) Remove(ctx context.Context, uid schemas.UID) error {
	if s.Dir == "" {
		return nil
	}
	unlock, err := s.lock(ctx, uid)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.RemoveAll(filepath.Join(s.Dir, string(uid))); err != nil {
		return fmt.Errorf("remove the recording of session %s: %w", uid, err)
	}
	return nil
}

// Forget is Remove, but for one who can't wait while segments are stored: Serve does it then, as the session is deleted.
func (s *Spool) Forget(ctx context.Context, uid schemas.UID) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	err := s.Remove(ctx, uid)
	if err != nil && schemas.ValidToken(string(uid)) {
		s.owe(uid)
	}
	return err
}

// StoreNow is Store, but for one who can't wait for a store that is away: Serve does it then.
func (s *Spool) StoreNow(ctx context.Context, uid schemas.UID) (*End, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	end, err := s.Store(ctx, uid)
	if err != nil && schemas.ValidToken(string(uid)) {
		s.owe(uid)
	}
	return end, err
}

// lock waits until nothing else is done with a session's folder. A uid that isn't the name of one is refused: it comes from
// messages, too.
func (s *Spool) lock(ctx context.Context, uid schemas.UID) (unlock func(), err error) {
	if !schemas.ValidToken(string(uid)) {
		return nil, fmt.Errorf("look for a recording: %.40q is no identity of a session", string(uid))
	}
	h := fnv.New32a()
	h.Write([]byte(uid))
	of := s.locks[h.Sum32()%uint32(len(s.locks))]
	select {
	case of <- struct{}{}:
		return func() { <-of }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the recording of session %s: %w", uid, context.Cause(ctx))
	}
}

// runs lists the folders of a session's runs, the oldest first.
func (s *Spool) runs(uid schemas.UID) (dirs []string, err error) {
	if s.Dir == "" || !schemas.ValidToken(string(uid)) {
		return nil, nil
	}
	all, err := os.ReadDir(filepath.Join(s.Dir, string(uid)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range all {
		if _, _, ok := recording.SplitRun(e.Name()); ok {
			dirs = append(dirs, filepath.Join(s.Dir, string(uid), e.Name()))
		}
	}
	return dirs, err
}

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
	for _, n := range numbers {
		if last == nil || n > last.Number {
			stored, storeErr := s.storeSegment(ctx, dir, r, n, last)
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
	if r.Keep > 0 && len(numbers) > 0 {
		if err := recording.Trim(ctx, s.Objects, r.Place, r.Keep); err != nil {
			s.Log.Warn("could not shorten a recording", "uid", string(r.UID), "err", err) // the next time does
		}
	}
	return r.end(last), nil
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

// storeSegment stores one segment.
func (s *Spool) storeSegment(ctx context.Context, dir string, r run, n uint64, last *recording.Ref) (recording.Ref, error) {
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
	if last == nil {
		h.Previous = r.Previous
		if err := s.storeKeys(ctx, r); err != nil {
			return none, err
		}
	}
	clear, ref, err := h.Seal(s.Signer)
	if err == nil {
		err = recording.Put(ctx, s.Objects, r.Place, ref, append(clear, sealed...))
	}
	return ref, err
}

func writeLast(dir string, ref recording.Ref) error {
	note, err := json.Marshal(ref)
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(dir, lastFile), note)
}

// storeKeys stores the key of a run, which was wrapped to its readers when the run began.
func (s *Spool) storeKeys(ctx context.Context, r run) error {
	for _, k := range r.Keys {
		err := s.Objects.Put(ctx, k.Name, bytes.NewReader(k.Data), int64(len(k.Data)))
		if err != nil && !errors.Is(err, objectstore.ErrExists) {
			return fmt.Errorf("store the key of a recording: %w", err)
		}
	}
	return nil
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
	for _, part := range []string{".json", ".age"} { // without the first the second is none
		if err := os.Remove(segmentFile(dir, n, part)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func readLast(dir string) (*recording.Ref, error) {
	data, err := os.ReadFile(filepath.Join(dir, lastFile))
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
