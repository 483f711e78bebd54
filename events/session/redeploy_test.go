package session_test

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// A session that doesn't run goes on with what others started on its host, and no other does.
func TestRedeploy(t *testing.T) {
	of := func(change func(*schemas.SessionRecord)) schemas.SessionRecord {
		r := schemas.SessionRecord{
			Tenant: "acme", Session: "web", UID: "u1", State: schemas.Suspended, Driver: "docker", Host: "a", Program: "web-1", Epoch: 7,
			Head: &schemas.Head{Name: "acme/l/snaps/2-5"}, Spec: "sealed",
			Pause: &schemas.Pause{},
		}
		change(&r)
		return r
	}
	same := func(*schemas.SessionRecord) {}
	next := session.Successor{Host: "a", Driver: "docker", Called: "web-1", Why: schemas.ExistingAsks}
	other := next
	other.Called = "web-2"
	chosen, own := other, other
	chosen.Why, own.Why, own.Of = schemas.ExistingChosen, schemas.ExistingOwn, "u1"
	for _, c := range []struct {
		what    string
		record  schemas.SessionRecord
		next    session.Successor
		refused string // "" if it goes on
		reason  string
	}{
		{"suspended", of(same), next, "", "container web-1 took its place while it was suspended"},
		{"failed", of(func(r *schemas.SessionRecord) { r.State = schemas.Failed }), next, "", "after it had failed"},
		{"ended", of(func(r *schemas.SessionRecord) { r.State = schemas.Exited }), next, "", "after its command had ended"},
		{"chosen by a person", of(same), chosen, "", "container web-2 took its place"},
		{"its own", of(same), own, "", "its container web-2 was started by others while it was suspended"},
		{"running", of(func(r *schemas.SessionRecord) { r.State = schemas.Running }), next, "it is running", ""},
		{"coming back", of(func(r *schemas.SessionRecord) { r.State = schemas.Resuming }), own, "it is resuming", ""},
		{"busy", of(func(r *schemas.SessionRecord) { r.Op = &schemas.Op{Kind: schemas.OpReap} }), next, "its reap is under way", ""},
		{"another host's", of(func(r *schemas.SessionRecord) { r.Host = "b" }), own, "on host b, and web-2 is on host a", ""},
		{"of an earlier session of the name", of(func(r *schemas.SessionRecord) { r.UID = "u2" }), own, "it isn't the one that had web-2", ""},
		{"another driver's", of(func(r *schemas.SessionRecord) { r.Driver = "criu" }), next, "its driver is criu", ""},
		{"another container's", of(same), other, "was made of web-1", ""},
	} {
		got, refused := session.DecideRedeploy(c.record, c.next, t0)
		if (refused == "") != (c.refused == "") || !strings.Contains(refused, c.refused) || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %q, refused with %q", c.what, got.Reason, refused)
		}
		if refused != "" {
			continue
		}
		got.Set.Op = &schemas.Op{Kind: schemas.OpStart, Spec: "another", Boot: schemas.BootClean, Back: c.record.State == schemas.Suspended}
		r, err := session.Apply(c.record, got)
		if err != nil || r.State != schemas.Starting || r.Epoch != 8 || *r.Head != *c.record.Head || r.Spec != "sealed" {
			t.Errorf("%s: it becomes %+v, %v", c.what, r, err)
		}
		if warned := len(r.Warnings) == 1 && strings.Contains(r.Warnings[0].Text, "`diapause rollback acme/web 2-5`"); warned != (c.record.State == schemas.Suspended) {
			t.Errorf("%s: it warns of %+v", c.what, r.Warnings)
		}
		was, pause := schemas.Failed, (*schemas.Pause)(nil)
		if c.record.State == schemas.Suspended {
			was, pause = schemas.Suspended, c.record.Pause
		}
		if failed, err := session.Apply(r, schemas.Transition{Type: schemas.TStartFailed}); err != nil || failed.Spec != "sealed" || failed.State != was || len(failed.Warnings) > 0 || failed.Pause != pause {
			t.Errorf("%s: when that fails it is %+v, %v", c.what, failed, err)
		}
		if runs, err := session.Apply(r, schemas.Transition{Type: schemas.TStarted}); err != nil || runs.Spec != "another" || *runs.Head != *c.record.Head {
			t.Errorf("%s: when that runs it is %+v, %v", c.what, runs, err)
		}
	}
}

// The same record and successor are decided alike, nothing is changed by that, and what is decided
// can be applied.
func TestPropertyRedeployIsPure(t *testing.T) {
	states := []schemas.State{schemas.Starting, schemas.Running, schemas.Suspending, schemas.Suspended, schemas.Resuming, schemas.Exited, schemas.Failed, schemas.Deleted}
	rapid.Check(t, func(t *rapid.T) {
		r := schemas.SessionRecord{
			Tenant: "acme", Session: "web", State: rapid.SampledFrom(states).Draw(t, "state"), Driver: "docker", Epoch: 7,
			Host: schemas.HostID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "host")), Program: rapid.SampledFrom([]string{"web-1", "web-2"}).Draw(t, "program"),
		}
		if rapid.Bool().Draw(t, "busy") {
			r.Op = &schemas.Op{Kind: schemas.OpReap}
		}
		if rapid.Bool().Draw(t, "captured") {
			r.Head = &schemas.Head{Name: "acme/l/snaps/2-5"}
		}
		s := session.Successor{Host: "a", Driver: "docker", Called: "web-1", Why: rapid.SampledFrom([]schemas.Existing{schemas.ExistingAsks, schemas.ExistingChosen, schemas.ExistingOwn}).Draw(t, "why")}
		before := reread(t, r)
		one, refused := session.DecideRedeploy(r, s, t0)
		two, again := session.DecideRedeploy(r, s, t0)
		if !reflect.DeepEqual(one, two) || refused != again || !reflect.DeepEqual(before, reread(t, r)) {
			t.Fatalf("%+v (%s), then %+v (%s)", one, refused, two, again)
		}
		next, err := session.Apply(r, one)
		if refused == "" && (err != nil || next.Host != "a" || next.Epoch != 8) {
			t.Fatalf("%+v can't be applied: %+v, %v", one, next, err)
		}
	})
}
