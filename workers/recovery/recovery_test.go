package recovery_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/recovery"
)

var work = schemas.Name{Tenant: "default", Session: "work"}

func record(state schemas.State, epoch, version uint64) *schemas.SessionRecord {
	return &schemas.SessionRecord{
		UID: "u", Tenant: "default", Session: "work", Host: "h", Driver: "criu", Lineage: "u", Spec: "sealed",
		State: state, Epoch: epoch, Version: version, Seq: 9, Born: 3,
	}
}

func image(uid schemas.UID, signer schemas.HostID, epoch uint64) recovery.Image {
	return recovery.Image{
		Head: schemas.Head{Name: "default/" + string(uid) + "/snaps/" + string(rune('0'+epoch)) + "-1", Digest: "d"},
		Header: schemas.ImageHeader{Tenant: "default", Session: "work", UID: uid, Lineage: string(uid), Epoch: epoch, Seq: 1, Signer: signer,
			Fingerprint: schemas.Fingerprint{Driver: "criu"}},
	}
}

func at(r *schemas.SessionRecord, img recovery.Image) *schemas.SessionRecord {
	r.Head = &img.Head
	return r
}

func here(uid schemas.UID, epoch uint64) *recovery.Here {
	return &recovery.Here{Driver: "criu", UID: uid, Name: work, Epoch: epoch}
}

// What took a session's place is still on trial when its record is made again: if it isn't
// well, or its processes are gone, the session goes on from what it was.
func TestPlanKeepsATrial(t *testing.T) {
	was, comes := image("u", "h", 4), image("u", "h", 2)
	trial := at(record(schemas.Running, 5, 8), comes)
	trial.Op = &schemas.Op{ID: "replace", Kind: schemas.OpProve, Fallback: &was.Head, WithinMS: 1000, Claim: "h.1", Seq: 9}
	resume := *trial.Op
	resume.Kind, resume.Source = schemas.OpResume, &comes.Head
	before := at(record(schemas.Resuming, 5, 7), was) // the log lost that it was restored
	before.Op = &resume
	for name, e := range map[string]recovery.Evidence{
		"it runs":                  {Logged: record(schemas.Suspended, 4, 7), Kept: trial, Here: here("u", 5)},
		"its processes are gone":   {Logged: record(schemas.Suspended, 4, 7), Kept: trial},
		"the activity went back":   {Logged: trial, Kept: trial, Here: here("u", 5)},
		"no one saw it recorded":   {Logged: before, Here: here("u", 5)},
		"no one remembers, either": {Logged: trial},
	} {
		e.Host, e.Activity, e.Images = "h", 5, []recovery.Image{was, comes}
		v, ok := recovery.Plan(e)
		r := v.Record
		if !ok || r.State != schemas.Running || r.Op == nil || r.Op.Kind != schemas.OpProve || r.Op.Fallback == nil || *r.Op.Fallback != was.Head || r.Op.Claim != "" || r.Op.Seq > 5 {
			t.Errorf("%s: %v, %s with %+v", name, ok, r.State, r.Op)
		}
		if r.Head == nil || *r.Head != comes.Head {
			t.Errorf("%s: it goes on from %+v", name, r.Head)
		}
	}
	if trial.Op.Claim != "h.1" {
		t.Error("what was asked about is changed")
	}
}

// The highest epoch that anyone knows wins, and nothing that is known is lost.
func TestPlan(t *testing.T) {
	elsewhere := record(schemas.Running, 7, 9)
	elsewhere.Host = "other"
	for name, c := range map[string]struct {
		e     recovery.Evidence
		state schemas.State // "": the record can stay
		epoch uint64
		uid   schemas.UID
		head  string
	}{
		"nothing is known":           {},
		"as it was":                  {e: recovery.Evidence{Logged: record(schemas.Running, 5, 8), Kept: record(schemas.Running, 5, 8), Here: here("u", 5)}},
		"the log is ahead":           {e: recovery.Evidence{Logged: record(schemas.Exited, 5, 9), Kept: record(schemas.Running, 5, 8)}},
		"the host remembers more":    {recovery.Evidence{Logged: record(schemas.Suspended, 4, 7), Kept: record(schemas.Running, 5, 8), Here: here("u", 5)}, schemas.Running, 6, "u", ""},
		"no record, host remembers":  {recovery.Evidence{Kept: record(schemas.Exited, 5, 8)}, schemas.Exited, 6, "u", ""},
		"removed since":              {recovery.Evidence{Logged: record(schemas.Running, 5, 8), Kept: record(schemas.Deleted, 6, 9)}, schemas.Deleted, 7, "u", ""},
		"processes later than all":   {recovery.Evidence{Logged: record(schemas.Suspended, 4, 7), Here: here("u", 5)}, schemas.Running, 6, "u", ""},
		"processes and nothing else": {recovery.Evidence{Here: here("u", 5)}, schemas.Running, 6, "u", ""},
		"processes of a later life":  {recovery.Evidence{Logged: record(schemas.Running, 4, 7), Here: here("v", 9)}, schemas.Running, 10, "v", ""},
		"processes of an earlier life": {recovery.Evidence{Logged: record(schemas.Suspended, 4, 7), Kept: record(schemas.Suspended, 6, 9), Here: here("v", 3)},
			schemas.Suspended, 7, "u", ""},
		"frozen, its image durable": {recovery.Evidence{Logged: record(schemas.Running, 5, 8), Kept: at(record(schemas.Suspended, 6, 9), image("u", "h", 6)),
			Here: here("u", 6), Images: []recovery.Image{image("u", "h", 6)}}, schemas.Suspended, 7, "u", "6"},
		"frozen, its image gone": {recovery.Evidence{Logged: at(record(schemas.Suspended, 6, 9), image("u", "h", 6)),
			Here: here("u", 6), Images: []recovery.Image{image("u", "h", 4)}}, schemas.Running, 7, "u", "4"},
		"suspended since": {recovery.Evidence{Logged: record(schemas.Running, 5, 8), Images: []recovery.Image{image("u", "h", 6), image("u", "h", 4)}},
			schemas.Suspended, 7, "u", "6"},
		"suspended again since": {recovery.Evidence{Logged: at(record(schemas.Resuming, 5, 8), image("u", "h", 4)), Images: []recovery.Image{image("u", "h", 4), image("u", "h", 7)}},
			schemas.Suspended, 8, "u", "7"},
		"in a suspend, image complete": {recovery.Evidence{Logged: record(schemas.Suspending, 6, 8), Images: []recovery.Image{image("u", "h", 6)}},
			schemas.Suspended, 7, "u", "6"},
		"gone, an older image": {recovery.Evidence{Logged: at(record(schemas.Running, 6, 8), image("u", "h", 4)), Images: []recovery.Image{image("u", "h", 4)}},
			schemas.Running, 7, "u", "4"},
		"an image alone":                  {recovery.Evidence{Images: []recovery.Image{image("u", "h", 6)}}, schemas.Suspended, 7, "u", "6"},
		"an image of a later life":        {recovery.Evidence{Logged: record(schemas.Exited, 2, 8), Images: []recovery.Image{image("v", "h", 6)}}, schemas.Suspended, 7, "v", "6"},
		"another host's image":            {e: recovery.Evidence{Images: []recovery.Image{image("u", "other", 6)}}},
		"another host's image, all count": {recovery.Evidence{Images: []recovery.Image{image("u", "other", 6)}, All: true}, schemas.Suspended, 7, "u", "6"},
		"another host's session":          {e: recovery.Evidence{Logged: elsewhere, Kept: record(schemas.Running, 5, 8), Here: here("u", 5)}},
	} {
		t.Run(name, func(t *testing.T) {
			c.e.Host, c.e.Activity = "h", 20
			v, ok := recovery.Plan(c.e)
			if ok != (c.state != "") {
				t.Fatalf("changes it: %v, to %+v", ok, v)
			}
			r := v.Record
			if !ok {
				return
			}
			if r.State != c.state || r.Epoch != c.epoch || r.UID != c.uid || v.Reason == "" {
				t.Errorf("%s, epoch %d, uid %s because %q, want %s, %d, %s", r.State, r.Epoch, r.UID, v.Reason, c.state, c.epoch, c.uid)
			}
			if c.head != "" && (r.Head == nil || !strings.Contains(r.Head.Name, "/"+c.head+"-")) || c.head == "" && r.Head != nil {
				t.Errorf("it goes on from %v, want the image of epoch %q", r.Head, c.head)
			}
			c.e.Logged, c.e.Kept = &r, &r
			if again, ok := recovery.Plan(c.e); ok && r.State != schemas.Running {
				t.Errorf("it would be changed once more, to %+v", again)
			}
		})
	}
}

// A template whose record is lost is one again, from its image: it doesn't become a session.
func TestPlanKeepsATemplate(t *testing.T) {
	img := image("u", "h", 1)
	img.Header.Session = "-template-py"
	kept := at(record(schemas.Template, 1, 3), img)
	kept.Session = img.Header.Session
	later := img
	later.Header.Epoch = 2
	for name, e := range map[string]recovery.Evidence{
		"an image alone":     {Images: []recovery.Image{img}},
		"its host has it":    {Kept: kept, Images: []recovery.Image{img}},
		"with a later image": {Kept: kept, Images: []recovery.Image{later}},
	} {
		e.Host, e.Activity = "h", 20
		v, ok := recovery.Plan(e)
		if r := v.Record; !ok || r.State != schemas.Template || r.Pause != nil || r.Head == nil {
			t.Errorf("%s: changed %v, to %s, head %v, pause %v", name, ok, r.State, r.Head, r.Pause)
		}
	}
}

// An activity log that went back has earlier numbers: what waits for later ones
// would sleep through all that comes.
func TestPlanHearsAgain(t *testing.T) {
	r := record(schemas.Suspended, 4, 7)
	r.Op = &schemas.Op{ID: "o", Kind: schemas.OpReap, Claim: "c", Seq: 9}
	v, ok := recovery.Plan(recovery.Evidence{Host: "h", Logged: r, Activity: 2})
	if !ok || v.Record.Seq != 2 || v.Record.Born != 2 || v.Record.Op.Seq != 2 || v.Record.Op.Claim != "" {
		t.Errorf("changes it: %v, to %+v, op %+v", ok, v.Record, v.Record.Op)
	}
	if r.Op.Seq != 9 {
		t.Error("the record that was given is changed")
	}
}

func TestCompare(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log := map[schemas.Name]schemas.SessionRecord{work: *record(schemas.Running, 5, 8)}
	for name, c := range map[string]struct {
		saw, is recovery.Mark
		log     map[schemas.Name]schemas.SessionRecord
		kept    map[schemas.Name]schemas.SessionRecord
		here    []recovery.Here
		want    string
	}{
		"first start":         {is: recovery.Mark{Created: made, Seq: 4}},
		"further":             {saw: recovery.Mark{Created: made, Seq: 4}, is: recovery.Mark{Created: made, Seq: 5}, log: log, kept: log, here: []recovery.Here{*here("u", 5)}},
		"shorter":             {saw: recovery.Mark{Created: made, Seq: 4}, is: recovery.Mark{Created: made, Seq: 3}, want: "ends at entry 3"},
		"another log":         {saw: recovery.Mark{Created: made, Seq: 4}, is: recovery.Mark{Created: made.Add(1), Seq: 9}, want: "another one"},
		"an older version":    {log: log, kept: map[schemas.Name]schemas.SessionRecord{work: *record(schemas.Running, 5, 9)}, want: "version 8, and was at epoch 5, version 9"},
		"an older epoch":      {log: log, kept: map[schemas.Name]schemas.SessionRecord{work: *record(schemas.Running, 6, 2)}, want: "epoch 6"},
		"a later version":     {log: log, kept: map[schemas.Name]schemas.SessionRecord{work: *record(schemas.Running, 5, 7)}},
		"no record":           {kept: log, want: "has no record"},
		"stranger":            {here: []recovery.Here{*here("u", 5)}, want: "is on this host and has no record"},
		"later processes":     {log: log, here: []recovery.Here{*here("u", 6)}, want: "at epoch 6"},
		"what is left behind": {log: log, here: []recovery.Here{*here("v", 4)}},
	} {
		got := strings.Join(recovery.Compare(c.saw, c.is, c.log, c.kept, c.here), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What the ledger keeps is there after a restart: the newest of each session of this
// host, wherever it went; and a torn file is as if it had never been.
func TestLedger(t *testing.T) {
	dir := t.TempDir()
	open := func() (*recovery.Ledger, []string) {
		l, damaged, err := recovery.Open(dir, "h")
		if err != nil {
			t.Fatal(err)
		}
		return l, damaged
	}
	l, _ := open()
	foreign := *record(schemas.Running, 9, 9)
	foreign.Host, foreign.Session = "other", "foreign"
	moved := *record(schemas.Running, 6, 1)
	moved.Host = "other"
	forgotten := *record(schemas.Deleted, 2, 2)
	forgotten.Session, forgotten.Since = "old", time.Now().Add(-365*24*time.Hour)
	for _, r := range []schemas.SessionRecord{foreign, *record(schemas.Running, 5, 8), *record(schemas.Running, 5, 7), moved, *record(schemas.Running, 5, 9), forgotten} {
		if err := l.Keep(r); err != nil {
			t.Fatal(err)
		}
	}
	mark := recovery.Mark{Created: time.Now().UTC(), Seq: 12}
	if err := l.Reach(mark); err != nil {
		t.Fatal(err)
	}
	l, damaged := open()
	got := l.Records()
	if len(got) != 1 || got[work].Epoch != 6 || got[work].Host != "other" || got[work].Spec != "sealed" || len(damaged) > 0 {
		t.Errorf("it remembers %+v, damaged %v", got, damaged)
	}
	if !l.Mark().Created.Equal(mark.Created) || l.Mark().Seq != 12 {
		t.Errorf("the mark is %+v", l.Mark())
	}
	for _, file := range []string{work.Key() + ".record.json", "mark.json"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(`{"uid":`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, damaged = open()
	if len(damaged) != 2 || len(l.Records()) != 0 || l.Mark() != (recovery.Mark{}) {
		t.Errorf("damaged: %v; it remembers %v, %v", damaged, l.Records(), l.Mark())
	}
	if _, damaged = open(); len(damaged) != 0 {
		t.Errorf("damaged still: %v", damaged)
	}
}

// An entry is another one if its transition is; nothing is said of one that isn't known,
// there or here.
func TestReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		saw, is string
		want    bool
	}{
		"the same":                    {"a", "a", false},
		"a replica hasn't it yet":     {"a", "", false},
		"noted by an earlier version": {"", "a", false},
		"another one":                 {"a", "b", true},
	} {
		if got := recovery.Replaced(recovery.Mark{Seq: 6, ID: c.saw}, c.is); (len(got) > 0) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A removed session that has left the log isn't lost, and a later one of its name that begins with
// epoch 1 again isn't an earlier state of it.
func TestRemovedSessionsLeaveTheLog(t *testing.T) {
	name, at := schemas.Name{Tenant: "acme", Session: "a"}, time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	gone := schemas.SessionRecord{UID: "u1", Tenant: "acme", Session: "a", Host: "h", State: schemas.Deleted, Epoch: 9, Version: 40, Since: at}
	again := schemas.SessionRecord{UID: "u2", Tenant: "acme", Session: "a", Host: "h", State: schemas.Running, Epoch: 1, Version: 2, Created: at.Add(time.Hour)}
	earlier := again
	earlier.Created = at.Add(-time.Hour)
	removing := gone
	removing.Op = &schemas.Op{ID: "r"}
	type records = map[schemas.Name]schemas.SessionRecord
	for what, c := range map[string]struct {
		kept  schemas.SessionRecord
		log   records
		signs int
	}{
		"it has left the log":     {gone, records{}, 0},
		"its name is another's":   {gone, records{name: again}, 0},
		"the log went back":       {gone, records{name: earlier}, 1},
		"it was being removed":    {removing, records{}, 1},
		"it is in the log":        {gone, records{name: gone}, 0},
		"a session that is there": {again, records{}, 1},
	} {
		if signs := recovery.Compare(recovery.Mark{}, recovery.Mark{}, c.log, records{name: c.kept}, nil); len(signs) != c.signs {
			t.Errorf("%s: %q", what, signs)
		}
	}
	if v, ok := recovery.Plan(recovery.Evidence{Host: "h", Logged: &again, Kept: &gone, Here: &recovery.Here{UID: "u2", Name: name, Epoch: 1}}); ok && v.Record.UID != "u2" {
		t.Errorf("a recovery makes %s of it: %s", v.Record.UID, v.Reason)
	}
	l, _, err := recovery.Open(t.TempDir(), "h")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []schemas.SessionRecord{gone, again} {
		if err := l.Keep(r); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Records()[name].UID; got != "u2" {
		t.Errorf("the ledger has %s", got)
	}
}
