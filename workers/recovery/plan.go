package recovery

import (
	"fmt"

	"github.com/diapause/diapause/schemas"
)

// Image is one snapshot in the store whose signature is good.
type Image struct {
	Head   schemas.Head
	Header schemas.ImageHeader
}

// Evidence is all that is known of one session.
type Evidence struct {
	Host     schemas.HostID         // the one that asks
	Logged   *schemas.SessionRecord // the log's last; nil if it has none
	Kept     *schemas.SessionRecord // in this host's ledger
	Here     *Here                  // its processes on this host
	Images   []Image                // of that name, of any uid
	All      bool                   // images that other hosts signed count, too, for a session without a record
	Activity uint64                 // the last entry of the activity log, which may have gone back too
}

// Verdict is what the record has to become.
type Verdict struct {
	Record schemas.SessionRecord // with its new epoch; its version is the log's to give
	Reason string
	// Missing says what can't be done with it, since its spec is lost.
	Missing string
}

// Why is the reason with what is missing.
func (v Verdict) Why() string {
	if v.Missing == "" {
		return v.Reason
	}
	return v.Reason + "; " + v.Missing
}

// Plan says what a session's record has to become; ok is false if it can stay as it
// is. The highest epoch wins.
func Plan(e Evidence) (v Verdict, ok bool) {
	base, ahead := e.newest()
	switch {
	case e.Here != nil && (base == nil || e.Here.Epoch > base.Epoch):
		v, ok = e.fromHere(base), true
	case e.unrecorded(base) != nil:
		v, ok = e.fromImage(*e.unrecorded(base)), true
	case base == nil:
		return Verdict{}, false
	case base.Host != "" && base.Host != e.Host:
		return Verdict{}, false // that host has its own ledger
	default:
		v, ok = e.fromRecord(*base)
		ok = ok || ahead || e.deaf(*base)
	}
	if !ok {
		return Verdict{}, false
	}
	e.finish(&v.Record)
	return v, true
}

// newest gives the later one of the two records; ahead says that it isn't the log's.
func (e Evidence) newest() (r *schemas.SessionRecord, ahead bool) {
	switch {
	case e.Kept == nil:
		return e.Logged, false
	case e.Logged == nil || Newer(*e.Kept, *e.Logged) && !followed(*e.Kept, *e.Logged):
		return e.Kept, true
	}
	return e.Logged, false
}

// deaf reports whether the record waits for activity after the end of an activity log that went
// back: the session would ignore the first activity that comes.
func (e Evidence) deaf(r schemas.SessionRecord) bool {
	return r.State != schemas.Deleted && (r.Seq > e.Activity || r.Born > e.Activity)
}

// fromHere follows processes that are of a later epoch than every record: they are
// the session, and what was recorded of them is lost.
func (e Evidence) fromHere(base *schemas.SessionRecord) Verdict {
	i := e.Here
	r := schemas.SessionRecord{
		UID: i.UID, Tenant: i.Name.Tenant, Session: i.Name.Session, Driver: i.Driver,
		Class: "web", MadeBy: schemas.MadeByPerson, Program: "?", Lineage: string(i.UID),
		// Without a spec it can't be resumed: it must not be suspended for idleness.
		Idle: &schemas.Idle{Never: true},
	}
	if base != nil && base.UID == i.UID {
		r = *base
	}
	r.Host = e.Host
	running(&r)
	if img := e.latest(i.UID); img != nil {
		setImage(&r, *img)
	}
	v := Verdict{Record: r, Reason: fmt.Sprintf("host %s has its processes at epoch %d, the records knew of none so late", e.Host, i.Epoch)}
	if r.Spec == "" {
		v.Missing = "how it was started is lost: it runs on, and can't be suspended"
	}
	return v
}

// fromImage makes a session's record again from its image, if no record of it is left.
func (e Evidence) fromImage(img Image) Verdict {
	h := img.Header
	r := schemas.SessionRecord{
		UID: h.UID, Tenant: h.Tenant, Session: h.Session, Driver: h.Fingerprint.Driver, Keeps: h.Fingerprint.Keeps, Host: e.Host,
		Class: "web", MadeBy: schemas.MadeByPerson, Program: "?", Lineage: h.Lineage, State: schemas.Suspended, Created: h.Time,
		Pause: &schemas.Pause{Reason: schemas.PauseHost, At: h.Time},
	}
	ofTemplate(&r)
	setImage(&r, img)
	return Verdict{
		Record: r, Reason: fmt.Sprintf("its record is lost, its image of %s is there", stamp(h.Time)),
		Missing: "how it was started is lost too, so it can't be resumed by this program alone",
	}
}

// fromRecord follows the newest record, corrected by what is there of it; ok says
// that it was.
func (e Evidence) fromRecord(r schemas.SessionRecord) (v Verdict, ok bool) {
	here := e.Here != nil && e.Here.UID == r.UID
	img := e.latest(r.UID)
	switch {
	case here && r.State == schemas.Suspended && !e.has(r.Head):
		running(&r)
		if img != nil {
			setImage(&r, *img)
		}
		return Verdict{Record: r, Reason: "its image isn't in the store, and its processes are there"}, true
	case here && r.State != schemas.Suspended && onHost(r.State):
		e.goesOn(&r)
	case !here && img != nil && r.State != schemas.Deleted && img.Header.Epoch > r.Epoch:
		suspended(&r, *img)
		return Verdict{Record: r, Reason: "a later image of it is in the store, of " + stamp(img.Header.Time)}, true
	case !here && alive(r.State) && img != nil && img.after(r.Head) && img.Header.Epoch == r.Epoch:
		suspended(&r, *img)
		return Verdict{Record: r, Reason: "its processes are gone, and its image of " + stamp(img.Header.Time) + " is complete"}, true
	case !here && alive(r.State):
		// What the log says of how it came to run may not be the last word: it must not
		// be started again for it.
		e.goesOn(&r)
		return Verdict{Record: r, Reason: "its processes are gone"}, true
	}
	return Verdict{Record: r, Reason: "as host " + string(e.Host) + " last saw it recorded"}, false
}

func alive(s schemas.State) bool { return s == schemas.Running || s == schemas.Suspending }

func onHost(s schemas.State) bool { return alive(s) || s == schemas.Starting || s == schemas.Resuming }

func running(r *schemas.SessionRecord) {
	r.State, r.Op, r.Exit, r.Failure = schemas.Running, nil, nil, nil
}

// goesOn has a session run whose processes are there, or were, at the record's epoch: from
// the snapshot that was being restored, if one was, and still on trial if that is in the
// place of what the session was.
func (e Evidence) goesOn(r *schemas.SessionRecord) {
	op := r.Op
	running(r)
	if op == nil {
		return
	}
	if op.Source != nil && (r.Head == nil || *op.Source != *r.Head) {
		r.Head, r.Size = op.Source, nil
		for _, img := range e.Images {
			if img.Head == *op.Source {
				setImage(r, img)
			}
		}
	}
	if op.Fallback != nil {
		trial := *op
		trial.Kind, trial.Attempts, trial.Source = schemas.OpProve, 0, nil
		r.Op = &trial
	}
}

func suspended(r *schemas.SessionRecord, img Image) {
	r.State, r.Op, r.Exit, r.Failure = schemas.Suspended, nil, nil, nil
	r.Pause = &schemas.Pause{Reason: schemas.PauseHost, At: img.Header.Time}
	ofTemplate(r)
	setImage(r, img)
}

// ofTemplate leaves what is no session one of what sessions are made from: it never runs.
func ofTemplate(r *schemas.SessionRecord) {
	if _, ok := r.Name().Template(); ok {
		r.State, r.Pause = schemas.Template, nil
	}
}

func setImage(r *schemas.SessionRecord, img Image) {
	h := img.Header
	r.Head = &schemas.Head{Name: img.Head.Name, Digest: img.Head.Digest}
	r.Size = &schemas.Sizes{At: h.Time, Logical: h.LogicalBytes, New: h.NewBytes, Stored: h.StoredBytes}
}

// finish gives the record an epoch above every known one, and moves positions after the end of
// the activity log back to that end.
func (e Evidence) finish(r *schemas.SessionRecord) {
	for _, have := range []*schemas.SessionRecord{e.Logged, e.Kept} {
		if have != nil {
			r.Epoch = max(r.Epoch, have.Epoch)
		}
	}
	if e.Here != nil {
		r.Epoch = max(r.Epoch, e.Here.Epoch)
	}
	for _, img := range e.Images {
		r.Epoch = max(r.Epoch, img.Header.Epoch)
	}
	r.Epoch++
	r.Transition = schemas.Transition{}
	r.Seq, r.Born = min(r.Seq, e.Activity), min(r.Born, e.Activity)
	if r.Op != nil {
		op := *r.Op
		op.Claim, op.Seq = "", min(op.Seq, e.Activity)
		r.Op = &op
	}
}

// latest gives the newest image of one session of that name.
func (e Evidence) latest(uid schemas.UID) (out *Image) {
	for _, img := range e.Images {
		if img.Header.UID == uid && (out == nil || img.later(out.Header)) {
			out = &img
		}
	}
	return out
}

// unrecorded gives the newest image of a session of that name that was made after the one in
// base. Another host's image is left to that host, which has its own ledger.
func (e Evidence) unrecorded(base *schemas.SessionRecord) (out *Image) {
	var known schemas.SessionRecord
	if base != nil {
		known = *base
	}
	for _, img := range e.Images {
		h := img.Header
		if h.UID != known.UID && h.Epoch > known.Epoch && (e.All || h.Signer == e.Host) && (out == nil || img.later(out.Header)) {
			out = &img
		}
	}
	return out
}

func (e Evidence) has(h *schemas.Head) bool {
	for _, img := range e.Images {
		if h != nil && img.Head == *h {
			return true
		}
	}
	return false
}

// later reports whether the image was taken after another of the same session.
func (i Image) later(than schemas.ImageHeader) bool {
	return i.Header.Epoch > than.Epoch || i.Header.Epoch == than.Epoch && i.Header.Seq > than.Seq
}

// after reports whether the image was taken after the one that a record points at.
func (i Image) after(h *schemas.Head) bool { return h == nil || i.Head.Name != h.Name }
