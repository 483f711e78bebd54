package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// many are the sessions of a list that is measured, of which so many change so often.
const (
	many    = 10_000
	changes = 600
	every   = 50 * time.Millisecond
)

// TestManySessions writes the records of sessions that sleep, and says how soon a page shows a change of one. Half of the changes are
// of sessions that the page doesn't show.
func TestManySessions(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	i := up(t)
	js := i.log(t)
	names := stream.NamesWith("")
	for n := range many {
		data, err := json.Marshal(asleep(t, n, schemas.HostID(i.Host)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.PublishAsync(names.SessionSubject(nameOf(n)), data, jetstream.WithStallWait(limit)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	records, err := statekv.Open(t.Context(), js, names)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := i.browse(ctx, t, "many.mjs", strconv.Itoa(many), strconv.Itoa(changes/2))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for said := bufio.NewScanner(out); said.Scan(); {
		if t.Log(said.Text()); said.Text() == "ready" {
			change(t, records)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, i.Log())
	}
}

// log connects to the installation's own NATS.
func (i installation) log(t *testing.T) jetstream.JetStream {
	t.Helper()
	nc, err := natsconn.Connect(t.Context(), i.Secure, filepath.Join(i.Data, "creds", "system.nk"), "console test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func nameOf(n int) schemas.Name {
	return schemas.Name{Tenant: schemas.DefaultTenant, Session: schemas.SessionID(fmt.Sprintf("s%05d", n))}
}

// asleep gives the record of a session that was suspended.
func asleep(t *testing.T, n int, host schemas.HostID) schemas.SessionRecord {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond)
	name, uid := nameOf(n), fmt.Sprintf("%026x", n+1)
	op := func(kind string) *schemas.Op {
		return &schemas.Op{ID: "op-" + uid, Kind: kind, Deadline: now.Add(time.Hour)}
	}
	var r schemas.SessionRecord
	for k, step := range []schemas.Transition{
		{Type: schemas.TRun, Actor: "test", Set: schemas.Set{Host: host, Op: op(schemas.OpStart), New: &schemas.NewSession{
			UID: schemas.UID(uid), Tenant: name.Tenant, Session: name.Session, Class: "web", Driver: "criu", Program: "node", Lineage: uid}}},
		{Type: schemas.TStarted, Actor: "test"},
		{Type: schemas.TSuspend, Actor: "test", Set: schemas.Set{Op: op(schemas.OpSuspend)}},
		{Type: schemas.TSuspended, Actor: "test", Set: schemas.Set{
			Head: &schemas.Head{Name: "default/" + uid + "/snaps/3-1", Digest: "sha256:" + uid + uid},
			Size: &schemas.Sizes{At: now, Logical: 400 << 20, New: 28 << 20, Stored: 3 << 20}}},
		{Type: schemas.TReaped, Actor: "test"},
	} {
		step.ID, step.At = fmt.Sprintf("tr-%s-%d", uid, k), now
		var err error
		if r, err = session.Apply(r, step); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// change labels sessions with the microsecond at which it begins to: by turns one of those at the top, and one of the others.
func change(t *testing.T, records *statekv.Store) {
	t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := range changes {
		<-tick.C
		of := n / 2 % 15
		if n%2 == 1 {
			of = 1_000 + n*13%(many-1_000)
		}
		_, err := records.Update(t.Context(), nameOf(of), func(schemas.SessionRecord) (schemas.Transition, bool, error) {
			return schemas.Transition{Type: schemas.TLabelled, Actor: "test", Set: schemas.Set{Labels: map[string]string{"at": strconv.FormatInt(time.Now().UnixMicro(), 10)}}}, true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// attaches are how often a terminal is resumed to measure it.
const attaches = 20

// TestAttach says how soon a page paints the prompt of a session that slept.
func TestAttach(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	fresh(t).run(t, "attach.mjs", strconv.Itoa(attaches))
}

// frames are how often a desktop is resumed to measure it.
const frames = 10

// TestFrames says how soon a page paints something of a desktop that slept: the picture of its last frame, and then the desktop itself.
func TestFrames(t *testing.T) {
	if os.Getenv("DIAPAUSE_LONG") == "" {
		return // it runs with make test-long
	}
	fresh(t).run(t, "frames.mjs", strconv.Itoa(frames))
}
