package search

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore"
	"github.com/diapause/diapause/objectstore/dir"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/objectstore/recording"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/recordings"
	"github.com/diapause/diapause/workers/snapshots"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// counting is a store that counts what is read of it.
type counting struct {
	objectstore.Store
	mu   sync.Mutex
	gets int
	away error // of each read, if it isn't nil
}

func (c *counting) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	c.mu.Lock()
	c.gets++
	away := c.away
	c.mu.Unlock()
	if away != nil {
		return nil, away
	}
	return c.Store.Get(ctx, name, offset, length)
}

// yard is a store with recordings of sessions that have ended, and a host that searches them.
type yard struct {
	t      testing.TB
	store  *counting
	key    *age.X25519Identity
	signer ed25519.PrivateKey
	*Searcher

	mu      sync.Mutex
	records map[string]*taped
}

// taped is a session with its recording.
type taped struct {
	schemas.SessionRecord
	place recording.Place
	run   string
	to    age.Recipient
	last  *recording.Ref
	at    int64
	typed int64 // commands
	time  time.Time
}

func (y *yard) Get(_ context.Context, n schemas.Name) (statekv.Versioned, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	r := y.records[n.String()]
	if r == nil {
		return statekv.Versioned{}, statekv.ErrNoSession
	}
	return statekv.Versioned{SessionRecord: r.SessionRecord}, nil
}

func (y *yard) Watch(_ context.Context, fn func(statekv.Versioned), caughtUp func()) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, r := range y.records {
		fn(statekv.Versioned{SessionRecord: r.SessionRecord, Stored: r.time})
	}
	caughtUp()
	return nil
}

func newYard(t testing.TB) *yard {
	t.Helper()
	objects, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{t: t, store: &counting{Store: objects}, records: map[string]*taped{}}
	if y.key, err = age.GenerateX25519Identity(); err != nil {
		t.Fatal(err)
	}
	if _, y.signer, err = ed25519.GenerateKey(nil); err != nil {
		t.Fatal(err)
	}
	y.starts(y.key)
	return y
}

// starts has the host come up with these identities.
func (y *yard) starts(identities ...age.Identity) {
	log := slog.New(slog.DiscardHandler)
	y.Searcher = New(Options{
		Records: y, Log: log, Seal: func(context.Context, schemas.SessionRecord) {},
		Recordings: recordings.New(recordings.Options{
			Dir: y.t.TempDir(), Host: "h", Objects: y.store, Signer: y.signer, Records: y, Log: log,
			Snapshots: snapshots.New(snapshots.Options{
				Host: "h", Objects: y.store, Signer: y.signer, Log: log, Identities: identities, Recipients: []age.Recipient{y.key.Recipient()},
				Trusted: func(string, string) []ed25519.PublicKey {
					return []ed25519.PublicKey{y.signer.Public().(ed25519.PublicKey)}
				},
			}),
		}),
	})
}

// session makes one that has ended.
func (y *yard) session(name string) *taped {
	y.t.Helper()
	n, err := schemas.ParseName(name)
	if err != nil {
		y.t.Fatal(err)
	}
	s := &taped{time: noon, SessionRecord: schemas.SessionRecord{
		Tenant: n.Tenant, Session: n.Session, UID: schemas.UID("u-" + n.Session), Lineage: "lin-" + string(n.Session), State: schemas.Exited, Version: 1, Epoch: 1, Host: "h",
	}}
	s.place = recording.Place{Tenant: s.Tenant, Lineage: s.Lineage, UID: s.UID}
	key, objects, err := image.NewKey(s.Tenant, s.Lineage, image.Readers{Recipients: []age.Recipient{y.key.Recipient()}})
	if err != nil {
		y.t.Fatal(err)
	}
	for _, o := range objects {
		if err := y.store.Put(y.t.Context(), o.Name, bytes.NewReader(o.Data), int64(len(o.Data))); err != nil {
			y.t.Fatal(err)
		}
	}
	if s.to, err = key.Public(); err != nil {
		y.t.Fatal(err)
	}
	s.run = recording.RunName(1, key.KID, "x")
	y.mu.Lock()
	y.records[n.String()] = s
	y.mu.Unlock()
	return s
}

// shows has a segment recorded of the session, with pieces of output a second apart.
func (y *yard) shows(s *taped, commands []schemas.TypedCommand, pieces ...string) {
	y.t.Helper()
	var sealed bytes.Buffer
	w, err := recording.NewWriter(&sealed, s.to, s.at)
	if err != nil {
		y.t.Fatal(err)
	}
	for _, piece := range pieces {
		if err := w.Add(recording.Event{Time: s.time, Code: recording.Output, Data: []byte(piece)}); err != nil {
			y.t.Fatal(err)
		}
		s.at += int64(len(piece))
		s.time = s.time.Add(time.Second)
	}
	h := recording.Header{UID: s.UID, Run: s.run, Number: 1, Previous: s.last, Signer: "h"}
	if s.last != nil {
		h.Number = s.last.Number + 1
	}
	if h.Body, err = w.Close(); err != nil {
		y.t.Fatal(err)
	}
	var list []byte
	if len(commands) > 0 {
		var entries [][]byte
		for _, c := range commands {
			e, err := recording.Entry(c)
			if err != nil {
				y.t.Fatal(err)
			}
			entries = append(entries, e)
		}
		var l recording.List
		if list, l, err = recording.SealList(entries, 0, s.to); err != nil {
			y.t.Fatal(err)
		}
		h.List = &l
	}
	clear, ref, err := h.Seal(y.signer)
	if err != nil {
		y.t.Fatal(err)
	}
	if list != nil {
		if err := recording.PutList(y.t.Context(), y.store, s.place, ref, append(bytes.Clone(clear), list...)); err != nil {
			y.t.Fatal(err)
		}
	}
	if err := recording.Put(y.t.Context(), y.store, s.place, ref, append(clear, sealed.Bytes()...)); err != nil {
		y.t.Fatal(err)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	s.last = &ref
	s.Version++
}

// types has a command run in the session, with its output, in a segment.
func (y *yard) types(s *taped, text string, exit int, output ...string) {
	y.t.Helper()
	s.typed++
	echo := "$ " + text + "\r\n"
	from := s.at + int64(len(echo))
	c := schemas.TypedCommand{Number: s.typed, Text: text, Began: s.time, Ended: s.time.Add(time.Second), Exit: &exit, From: from, To: from}
	for _, piece := range output {
		c.To += int64(len(piece))
	}
	y.shows(s, []schemas.TypedCommand{c}, append([]string{echo}, output...)...)
}

// all lists all sessions.
func (y *yard) all() (of []attach.Searched) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for name, s := range y.records {
		of = append(of, attach.Searched{Name: name, UID: s.UID, Version: s.Version})
	}
	return of
}

// finds searches all sessions, and gives what is found, a line each, and what is said of sessions.
func (y *yard) finds(q attach.Search) (found string, notes string) {
	y.t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	var lines, said strings.Builder
	err := y.Search(y.t.Context(), q, y.all(), func(f attach.Found) error {
		fmt.Fprintf(&lines, "%s", f.Session)
		if f.Command > 0 {
			fmt.Fprintf(&lines, "#%d", f.Command)
		}
		fmt.Fprintf(&lines, " %s: %s", f.In, f.Line)
		if len(f.Before)+len(f.After) > 0 {
			fmt.Fprintf(&lines, " after %q before %q", f.Before, f.After)
		}
		lines.WriteByte('\n')
		return nil
	}, func(text string) error {
		said.WriteString(text + "\n")
		return nil
	})
	if err != nil {
		y.t.Fatal(err)
	}
	return lines.String(), said.String()
}

// want fails unless this is found.
func (y *yard) want(q attach.Search, want string) {
	y.t.Helper()
	found, notes := y.finds(q)
	if found != want || notes != "" {
		y.t.Errorf("%q: found\n%swant\n%s%s", q.Words, found, want, notes)
	}
}

// objects lists the names of the store's objects that have a text in them.
func (y *yard) objects(text string) (names []string) {
	y.t.Helper()
	err := y.store.List(y.t.Context(), "", func(i objectstore.Info) error {
		if strings.Contains(i.Name, text) {
			names = append(names, i.Name)
		}
		return nil
	})
	if err != nil {
		y.t.Fatal(err)
	}
	return names
}
