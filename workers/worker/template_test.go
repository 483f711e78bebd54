package worker_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/objectstore/image"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/driver"
)

// template asks for a template of what a session is suspended as. The bench is about the template from then on.
func (b *bench) template(of statekv.Versioned) statekv.Versioned {
	b.t.Helper()
	n, err := schemas.ParseTemplate("py")
	b.must(err)
	op := b.op(schemas.OpRewrite)
	op.Source, op.Trigger = of.Head, "template"
	b.name = n
	return b.change(schemas.Transition{Type: schemas.TTemplate, Reason: "a test", Set: schemas.Set{Host: "h", Op: op, New: &schemas.NewSession{
		UID: "uid-py", Tenant: n.Tenant, Session: n.Session, Class: "web", Driver: "fake", Spec: of.Spec, Lineage: "uid-py", Born: op.Seq,
		Origin: &schemas.Origin{Session: of.Name().String(), Snapshot: image.SnapshotID(of.Head.Name)}, Needs: []schemas.Feature{schemas.FeatureTemplates},
	}}})
}

func ready(v statekv.Versioned) bool {
	return v.State == schemas.Template && v.Op == nil && v.Head != nil
}

// made makes a session that begins from a template.
func (b *bench) madeFrom(v statekv.Versioned, uid string) {
	b.t.Helper()
	op := b.op(schemas.OpResume)
	op.Source, op.Boot = v.Head, schemas.BootFork
	b.name = schemas.Name{Tenant: "default", Session: schemas.SessionID(uid)}
	b.change(schemas.Transition{Type: schemas.TForkNew, Set: schemas.Set{Host: "h", Op: op, Head: v.Head, New: &schemas.NewSession{
		UID: schemas.UID(uid), Tenant: "default", Session: schemas.SessionID(uid), Class: "web", Driver: "fake", Spec: v.Spec, Lineage: uid,
	}}})
	b.until("running", running)
}

// remove removes what the bench is about.
func (b *bench) remove(shred bool) {
	b.t.Helper()
	op := b.op(schemas.OpRemove)
	op.Shred = shred
	b.change(schemas.Transition{Type: schemas.TRemove, Set: schemas.Set{Op: op}})
}

// A template has all of the snapshot that it is made of in a lineage of its own: the session that this was of may be shredded, its
// keys included, and sessions go on from the template where that one was. The template's image stays until
// they have images of their own.
func TestTemplateOutlivesItsOrigin(t *testing.T) {
	b := newBench(t)
	work, n := b.asleep()
	b.template(work)
	v := b.until("a template", ready)
	if !strings.HasPrefix(v.Head.Name, "default/uid-py/snaps/") || v.Size == nil || v.Size.Logical == 0 {
		t.Errorf("its image is %+v, of %+v", v.Head, v.Size)
	}
	b.folded()
	b.name = work.Name()
	b.remove(true)
	b.until("shredded", made(schemas.TShredded))
	if left := b.objects("default/" + work.Lineage); len(left) > 0 {
		t.Errorf("of the session there are %v", left)
	}
	for _, uid := range []string{"one", "two"} {
		b.madeFrom(v, uid)
		if m := b.count(schemas.UID(uid)); m != n+1 {
			t.Errorf("the session counted to %d, %s goes on with %d", n, uid, m)
		}
	}
	b.name = v.Name()
	b.remove(true)
	if got := b.until("deferred", made(schemas.TDeferred)); !strings.Contains(got.Transition.Reason, "one") && !strings.Contains(got.Transition.Reason, "two") {
		t.Errorf("it waits since %s", got.Transition.Reason)
	}
	for _, uid := range []schemas.SessionID{"one", "two"} {
		b.name.Session = uid
		b.suspend(false)
		b.until("suspended", suspended)
	}
	b.work() // it looks at once
	b.name = v.Name()
	b.until("shredded", made(schemas.TShredded))
	if left := b.objects("default/uid-py"); len(left) > 0 {
		t.Errorf("of the template there are %v", left)
	}
	b.folded()
}

// A template holds nothing that its snapshot says of the session that it was taken of but its own record.
func TestTemplateHasARecordOfItsOwn(t *testing.T) {
	b := newBench(t)
	work, _ := b.asleep()
	b.template(work)
	v := b.until("a template", ready)
	o := b.options()
	read := func(h schemas.Head) (names []string) {
		img, err := image.Open(b.ctx, b.dir, h, image.ReadOptions{Identities: o.Identities, Trusted: o.Trusted})
		b.must(err)
		defer img.Close()
		for _, e := range img.Entries() {
			names = append(names, e.Name)
		}
		slices.Sort(names)
		return names
	}
	of, its := read(*work.Head), read(*v.Head)
	if !slices.Equal(of, its) { // the fake records no terminal
		t.Errorf("the session's image has %v, the template's %v", of, its)
	}
	img, err := image.Open(b.ctx, b.dir, *v.Head, image.ReadOptions{Identities: o.Identities, Trusted: o.Trusted})
	b.must(err)
	defer img.Close()
	if h := img.Header(); h.UID != v.UID || h.Session != v.Session || h.Parent != nil || h.Trigger != "template" || h.Fingerprint.Driver != "fake" {
		t.Errorf("its header is %+v", h)
	}
	for _, p := range img.Header().Packs {
		if p.KID != img.Header().KID {
			t.Errorf("pack %s has another key", p.Name)
		}
	}
}

// A worker that stops while a template is written leaves a record that asks for it: the next one makes it, and nothing of the first
// attempt stays.
func TestTemplateAfterACrash(t *testing.T) {
	b := newBench(t)
	work, n := b.asleep()
	entered, release := make(chan struct{}, 1), make(chan struct{})
	b.images.set(func(s *faultyStore) { s.entered, s.release = entered, release })
	b.template(work)
	b.wait(entered)
	if v := b.until("being made", in(schemas.Template)); v.Head != nil || v.Op == nil {
		t.Errorf("while it is written it is %+v", v)
	}
	if len(b.objects("default/uid-py/packs")) == 0 {
		t.Fatal("nothing is stored yet: there is nothing to leave behind")
	}
	b.crash()
	before := b.objects("default/uid-py")
	b.images.set(func(s *faultyStore) { s.entered, s.release = nil, nil })
	b.work()
	v := b.until("a template", ready)
	now := b.objects("default/uid-py")
	for _, name := range before {
		if slices.Contains(now, name) {
			t.Errorf("%s is of the first attempt", name)
		}
	}
	b.madeFrom(v, "one")
	if m := b.count("one"); m != n+1 {
		t.Errorf("the session counted to %d, the new one goes on with %d", n, m)
	}
}

// One that can't be made is removed by its host, with the reason.
func TestTemplateFails(t *testing.T) {
	b := newBench(t)
	work, _ := b.asleep()
	b.images.set(func(s *faultyStore) { s.failGets = "/packs/" })
	b.template(work)
	b.until("shredded", made(schemas.TShredded))
	if left := b.objects("default/uid-py"); len(left) > 0 {
		t.Errorf("of the template there are %v", left)
	}
	all, err := b.records.History(b.ctx, b.name)
	b.must(err)
	i := slices.IndexFunc(all, made(schemas.TRemove))
	if f := all[i].Transition.Set.Failure; f == nil || f.Op != schemas.OpRewrite || !strings.Contains(f.Text, errStore.Error()) {
		t.Errorf("its removal says %+v", f)
	}
	b.folded()
}

// While a template is written, what it is made of stays, though its session is removed.
func TestTemplateHoldsItsSource(t *testing.T) {
	b := newBench(t)
	work, n := b.asleep()
	entered, release := make(chan struct{}, 1), make(chan struct{})
	b.images.set(func(s *faultyStore) { s.entered, s.release = entered, release })
	b.template(work)
	b.wait(entered)
	b.name = work.Name()
	b.remove(false)
	if got := b.until("deferred", made(schemas.TDeferred)); !strings.Contains(got.Transition.Reason, "template py") {
		t.Errorf("it waits since %s", got.Transition.Reason)
	}
	b.images.set(func(s *faultyStore) { s.entered = nil })
	close(release)
	b.until("removed", made(schemas.TRemoved))
	n2, err := schemas.ParseTemplate("py")
	b.must(err)
	b.name = n2
	v := b.until("a template", ready)
	b.madeFrom(v, "one")
	if m := b.count("one"); m != n+1 {
		t.Errorf("the session counted to %d, the new one goes on with %d", n, m)
	}
	b.isOnHost(work.UID, driver.State(""))
}

// Removed while it is written, a template leaves nothing.
func TestTemplateRemovedWhileItIsMade(t *testing.T) {
	b := newBench(t)
	work, _ := b.asleep()
	entered, release := make(chan struct{}, 1), make(chan struct{})
	b.images.set(func(s *faultyStore) { s.entered, s.release = entered, release })
	b.template(work)
	b.wait(entered)
	b.images.set(func(s *faultyStore) { s.entered = nil })
	b.remove(true)
	b.until("shredded", made(schemas.TShredded))
	if left := b.objects("default/uid-py"); len(left) > 0 {
		t.Errorf("of the template there are %v", left)
	}
	close(release)
	b.folded()
}
