package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// redactor has the hosts of sessions take something out of their recordings.
type redactor struct {
	sessions  *sessions
	snapshots *snapshots
	nc        *nats.Conn
	log       *slog.Logger
}

// redact takes something out of a recording. It is no use of the session, and doesn't wake it. What it was that matched, and
// the expression, are said to no one else.
func (s *redactor) redact(ctx context.Context, req request) (any, error) {
	if req.Redact == nil {
		return nil, schemas.UsageError("the request doesn't say what is to match")
	}
	if _, err := req.Redact.Expression(); err != nil {
		return nil, schemas.UsageError("%v", err)
	}
	v, err := s.sessions.named(ctx, req)
	if err != nil {
		return nil, err
	}
	switch {
	case !session.Can(v.State, schemas.TRedacted):
		return nil, schemas.StateError(schemas.Reason(v.State), "session %s is %s", v.Name(), v.State)
	case !v.TTY || v.Driver != treeDriver:
		return nil, schemas.StateError(schemas.ReasonWrongState, "nothing is recorded of session %s: it has no terminal", v.Name())
	case v.Host == "":
		return nil, schemas.StateError(schemas.ReasonWrongState, "session %s has no host yet, and no recording", v.Name())
	}
	out, err := s.ask(ctx, v, req)
	if err != nil {
		return nil, err
	}
	images, err := s.snapshots.listed(ctx, v)
	if err != nil {
		return nil, err
	}
	for _, l := range images {
		out.Images = append(out.Images, snapshotID(l.Head))
	}
	if out.DryRun || !out.Found() {
		return out, nil
	}
	return out, s.note(ctx, v, req, out)
}

// answerMargin is how long before the caller stops waiting the host is to stop.
const answerMargin = time.Second

// ask has the session's host do it.
func (s *redactor) ask(ctx context.Context, v statekv.Versioned, req request) (schemas.Redacted, error) {
	n := v.Name()
	q := schemas.RedactQuestion{Name: n.String(), UID: v.UID, RedactRequest: *req.Redact, By: req.by.String(), Before: time.Now().Add(defaultWait)}
	if end, ok := ctx.Deadline(); ok {
		q.Before = end.Add(-answerMargin)
	}
	var a schemas.RedactAnswer
	question, err := json.Marshal(q)
	if err != nil {
		return a.Redacted, fmt.Errorf("ask host %s: %w", v.Host, err)
	}
	msg, err := s.nc.RequestWithContext(ctx, schemas.SubjectHost+"."+string(v.Host)+".redact", question)
	if err != nil {
		s.log.Debug("host doesn't answer", "host", v.Host, "err", err)
		return a.Redacted, schemas.FailedError(schemas.ReasonNoHost, "host %s of session %s doesn't answer", v.Host, n).
			WithHint("ask again, with a longer --timeout for a long recording: the rest is done then")
	}
	if err := json.Unmarshal(msg.Data, &a); err != nil {
		return a.Redacted, fmt.Errorf("read what host %s answered: %w", v.Host, err)
	}
	if a.Error != "" {
		failed := schemas.FailedError(schemas.ReasonUnreadable, "%s", a.Error)
		if a.Hint != "" {
			failed = failed.WithHint("%s", a.Hint)
		}
		return a.Redacted, failed
	}
	a.Name, a.DryRun, a.Images = n.String(), q.DryRun, []string{}
	return a.Redacted, nil
}

// note has the session's history say who has redacted it, and how much.
func (s *redactor) note(ctx context.Context, v statekv.Versioned, req request, out schemas.Redacted) error {
	uid, t := v.UID, schemas.Transition{Type: schemas.TRedacted, Reason: because(redactedText(out), req.Reason)}
	req.Reason = ""
	for {
		_, err := s.sessions.ask(ctx, v, req, t)
		if !errors.Is(err, statekv.ErrConflict) {
			return err
		}
		if v, err = s.sessions.named(ctx, req); err != nil {
			return err
		}
		if v.UID != uid || !session.Can(v.State, schemas.TRedacted) {
			return nil // it was removed, and its recording with it
		}
	}
}

// redactedText says how much was redacted, and nothing of what it was.
func redactedText(r schemas.Redacted) string {
	return fmt.Sprintf("its recording was redacted: %d matches, %d commands, %d on screens", r.Matches, r.Commands, r.Screens)
}
