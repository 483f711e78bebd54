package recordings

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/diapause/diapause/events/failpoint"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
	"github.com/diapause/diapause/workers/snapshots"
)

// Options is what a Spool is made of. All fields but the last but Stored are needed.
type Options struct {
	Dir       string // of this host, made if it isn't there; without it nothing is recorded
	Host      schemas.HostID
	Objects   objectstore.Store
	Signer    ed25519.PrivateKey // signs segments
	Snapshots *snapshots.Store
	// Records tells whether a session is still there.
	Records interface {
		Get(ctx context.Context, n schemas.Name) (statekv.Versioned, error)
	}
	Log        *slog.Logger
	Failpoints *failpoint.Set // in tests; may be nil
	// Stored, if given, is called when more of a session is stored. It doesn't wait.
	Stored func(n schemas.Name, uid schemas.UID)
}

// Spool has the recordings of one host. Its methods may be called concurrently.
type Spool struct {
	Options
	Imports *Imports

	wake  chan struct{}     // has one if there is something in due
	locks [64]chan struct{} // full while something is done with a session's folder: which one its uid says

	patience time.Duration // how long one waits for the store who can do without what comes of it

	mu  sync.Mutex
	due map[schemas.UID]bool // sessions of which something was spilled
	// rooms are what recordings take that are shortened, by the folders of runs of which more may come.
	rooms map[string]*recording.Room

	redacted map[string]*recording.Redaction // of runs that are stored
}

// New makes a Spool.
func New(o Options) *Spool {
	s := &Spool{Options: o, wake: make(chan struct{}, 1), due: map[schemas.UID]bool{}, rooms: map[string]*recording.Room{}, redacted: map[string]*recording.Redaction{}, patience: 3 * time.Second}
	s.Imports = newImports(s)
	for i := range s.locks {
		s.locks[i] = make(chan struct{}, 1)
	}
	return s
}

// run describes one run of a session, in a file of its folder.
type run struct {
	recording.Place
	Session    schemas.SessionID `json:"session"`
	Run        string            `json:"run"`
	Key        image.LineageKey  `json:"key"`
	Generation uint64            `json:"generation"`     // image.Readers.Generation of the key
	Previous   *recording.Ref    `json:"previous"`       // where the recording was that it goes on with
	Keep       int64             `json:"keep,omitempty"` // bytes of the recording in the store; all if 0
	Keys       []image.KeyObject `json:"keys"`           // to be stored before the first segment; none if the key is stored
}

// End is where a recording was at some moment: an image says so of the moment at which it was taken.
type End struct {
	UID        schemas.UID      `json:"uid"`
	End        *recording.Ref   `json:"end"` // null: nothing was recorded yet
	Key        image.LineageKey `json:"key"`
	Generation uint64           `json:"generation"`

	stored bool // End is of the run itself
}

// EndEntry is the entry of an image that has an End.
const EndEntry = "record/recording.json"

// Recorded reports whether a session's terminal is recorded, and whether what is typed is, too.
func Recorded(s schemas.Spec) (output, input bool) {
	if !s.TTY || s.Record == "" || s.Record == schemas.RecordOff {
		return false, false
	}
	return true, s.Record == schemas.RecordInput
}

// Begin makes the folder for a run of a session that is about to be started, or restored from an image. It gives
// nil if its terminal isn't recorded. What is in the way of a recording is in the way of no session: it runs without one, with a
// warning in the log. release is called once the session runs, or doesn't.
func (s *Spool) Begin(ctx context.Context, r schemas.SessionRecord, spec schemas.Spec, from driver.Source) (to *driver.Recording, release func()) {
	output, input := Recorded(spec)
	if !output || s.Dir == "" {
		return nil, func() {}
	}
	to, lock, err := s.begin(ctx, r, spec, from)
	if err != nil {
		s.Log.Warn("a terminal isn't recorded", r.Logged("err", err)...)
		return nil, func() {}
	}
	to.Input = input
	return to, func() { lock.Close() }
}

func (s *Spool) begin(ctx context.Context, r schemas.SessionRecord, spec schemas.Spec, from driver.Source) (*driver.Recording, *os.File, error) {
	if !schemas.ValidToken(string(r.UID)) {
		return nil, nil, fmt.Errorf("begin a recording: %.40q is no identity of a session", string(r.UID))
	}
	run, err := s.newRun(ctx, r, from)
	if err != nil {
		return nil, nil, err
	}
	run.Keep = spec.RecordKeep
	to := &driver.Recording{Dir: filepath.Join(s.Dir, string(r.UID), run.Run), Key: run.Key}
	lock, err := run.write(to.Dir)
	return to, lock, err
}

// newRun says how a run is recorded: with the key of the recording that it goes on with, unless its readers have become others.
func (s *Spool) newRun(ctx context.Context, r schemas.SessionRecord, from driver.Source) (run, error) {
	out := run{Place: placeOf(r), Session: r.Session}
	readers, err := s.Snapshots.Readers(ctx, r.Tenant)
	if err != nil {
		return out, err
	}
	was, err := endOf(from)
	if err != nil {
		return out, err
	}
	switch {
	case was != nil && was.UID == r.UID:
		out.Previous, out.Key, out.Generation = was.End, was.Key, was.Generation
	case was == nil && from != nil:
		if out.Previous, err = s.before(ctx, r, from); err != nil {
			return out, err
		}
	}
	if out.Key.KID == "" || out.Previous == nil || out.Generation < readers.Generation {
		out.Generation = readers.Generation
		if out.Key, out.Keys, err = image.NewKey(r.Tenant, r.Lineage, readers); err != nil {
			return out, err
		}
	}
	out.Run = recording.RunName(r.Epoch, out.Key.KID, strings.ToLower(rand.Text()[:10]))
	return out, nil
}

// before gives where the recording was when an image was taken that doesn't say so, because the run before it wasn't recorded.
func (s *Spool) before(ctx context.Context, r schemas.SessionRecord, from driver.Source) (*recording.Ref, error) {
	tip, _, err := recording.Tip(ctx, impatient{s.Objects, answerWait}, placeOf(r), s.Snapshots.Signers(ctx, r.Tenant))
	if err != nil || tip == nil {
		return nil, err
	}
	if img, ok := from.(interface{ Header() schemas.ImageHeader }); ok && img.Header().Time.Before(tip.Header.To) {
		return nil, nil // of a run from which the session is taken back
	}
	return &tip.Ref, nil
}

func placeOf(r schemas.SessionRecord) recording.Place {
	return recording.Place{Tenant: r.Tenant, Lineage: r.Lineage, UID: r.UID}
}

// maxEnd bounds what is read of an image's End, in bytes.
const maxEnd = 64 << 10

// endOf reads where the recording was when an image was taken; nil if it doesn't say.
func endOf(from driver.Source) (*End, error) {
	if from == nil || !slices.ContainsFunc(from.Entries(), func(e image.Entry) bool { return e.Name == EndEntry }) {
		return nil, nil
	}
	in, err := from.Open(EndEntry)
	if err != nil {
		return nil, fmt.Errorf("read where the recording was: %w", err)
	}
	defer in.Close()
	var e End
	data, err := io.ReadAll(io.LimitReader(in, maxEnd))
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		return nil, fmt.Errorf("read where the recording was: %w", err)
	}
	return &e, nil
}

// write makes the folder, and gives the lock that says that segments may come. It has its name only when it is
// locked: else it could be taken for that of a run that is over.
func (r run) write(dir string) (lock *os.File, err error) {
	made := dir + ".new"
	data, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(made, 0o700)
	}
	if errors.Is(err, fs.ErrNotExist) { // the session's folder was empty, and removed
		err = os.MkdirAll(made, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(made, driver.RunFile), data, 0o600)
	}
	if err == nil {
		lock, err = driver.LockRun(made, false)
	}
	if err == nil {
		err = os.Rename(made, dir)
	}
	if err == nil {
		return lock, nil
	}
	if lock != nil {
		lock.Close()
	}
	return nil, errors.Join(err, os.RemoveAll(made))
}

func readRun(dir string) (run, error) {
	var r run
	data, err := os.ReadFile(filepath.Join(dir, driver.RunFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", dir, err)
	}
	return r, nil
}
