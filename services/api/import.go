package api

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// importer makes sessions of recordings that hosts have taken in. Such a session has ended, never ran here, and is in the archive: there is
// nothing to do with it but to read it.
type importer struct {
	sessions *sessions
	nc       *nats.Conn
}

// importedClass is the class of an imported session.
const importedClass = "terminal"

// run makes the session of a name of what its host has taken in for that name. The host is asked, so that no recording of
// another session becomes its own.
func (s *importer) run(ctx context.Context, n schemas.Name, req request) (any, error) {
	r := req.Run
	if err := n.ValidateNew(); err != nil {
		return nil, schemas.UsageError("%v", err)
	}
	if !schemas.ValidToken(string(r.Import.UID)) || !schemas.ValidToken(string(r.Host)) {
		return nil, schemas.UsageError("import: host %.40q has no recording %.40q", r.Host, r.Import.UID)
	}
	prev, err := s.sessions.records.Get(ctx, n)
	if err != nil && !errors.Is(err, statekv.ErrNoSession) {
		return nil, err
	}
	switch {
	case err == nil && prev.UID == r.Import.UID && prev.State != schemas.Deleted: // the answer was lost
		return schemas.ViewOf(prev.SessionRecord), nil
	case err == nil && prev.State != schemas.Deleted:
		return nil, schemas.StateError(schemas.ReasonExists, "session %s exists and is %s", n, prev.State).WithHint("give the recording another name with --name")
	case prev.Op != nil:
		return nil, schemas.StateError(schemas.ReasonBusy, "the last session named %s is being removed: %s", n, prev.Transition.Reason).WithHint("try again later")
	}
	taken, err := s.taken(ctx, r.Host, r.Import.UID)
	if err != nil {
		return nil, err
	}
	if taken.Name != n.String() || taken.UID != r.Import.UID {
		return nil, schemas.StateError(schemas.ReasonWrongState, "host %s took in no such recording for session %s", r.Host, n)
	}
	t, err := s.transition(ctx, n, req, taken)
	if err != nil {
		return nil, err
	}
	v, err := s.sessions.ask(ctx, prev, req, t)
	if errors.Is(err, statekv.ErrConflict) {
		return nil, schemas.StateError(schemas.ReasonConflict, "session %s was made by another request just now", n)
	}
	return schemas.ViewOf(v.SessionRecord), err
}

// takenAnswer bounds that.
const takenAnswer = 10 * time.Second

// taken asks a host what it has taken in.
func (s *importer) taken(ctx context.Context, host schemas.HostID, uid schemas.UID) (out schemas.Imported, err error) {
	ctx, cancel := context.WithTimeout(ctx, takenAnswer)
	defer cancel()
	msg, err := s.nc.RequestWithContext(ctx, schemas.SubjectHost+"."+string(host)+".imported", []byte(uid))
	if err != nil {
		return out, schemas.FailedError(schemas.ReasonHostGone, "host %s doesn't say what it took in: %v", host, err)
	}
	if err := json.Unmarshal(msg.Data, &out); err != nil {
		return out, schemas.FailedError("", "read what host %s took in: %v", host, err)
	}
	return out, nil
}

// maxImported bounds what a recording is called in a record, in bytes.
const maxImported = 256

// transition makes the session.
func (s *importer) transition(ctx context.Context, n schemas.Name, req request, taken schemas.Imported) (t schemas.Transition, err error) {
	seq, err := stream.LastActivity(ctx, s.sessions.js, s.sessions.names)
	if err != nil {
		return t, err
	}
	from := req.Run.Import.From
	if from == "" {
		from = "a recording"
	}
	from = schemas.Shown(from[:min(len(from), maxImported)])
	now := time.Now().UTC().Truncate(time.Millisecond)
	exit := &schemas.Exit{Reason: "imported", At: now}
	if taken.Exit != nil {
		exit.Code = *taken.Exit
	}
	fresh := &schemas.NewSession{
		UID: taken.UID, Tenant: n.Tenant, Session: n.Session, Class: importedClass, Driver: taken.Driver, MadeBy: schemas.MadeByPerson,
		Program: from, Lineage: string(taken.UID), TTY: true, Origin: &schemas.Origin{Imported: from}, Born: seq,
	}
	return schemas.Transition{Type: schemas.TImported, Reason: "imported from " + from, Set: schemas.Set{
		New: fresh, Host: req.Run.Host, Exit: exit, Archived: &schemas.Archived{At: now, For: schemas.ArchivedImport},
	}}, nil
}

// neverRan refuses what needs a command of a session that has none.
func neverRan(v statekv.Versioned) error {
	if v.Origin == nil || v.Origin.Imported == "" {
		return nil
	}
	return schemas.StateError(schemas.ReasonExited, "session %s was imported: it never ran here", v.Name()).
		WithHint("it has neither memory nor a command: `diapause replay %s` plays it, `diapause run --name NEW` starts a session", v.Name())
}
