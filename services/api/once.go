package api

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

// maxOnce is what a caller's word for its request may have, in bytes.
const maxOnce = 255

// onceUnit is the time within which a request with its caller's word makes the same uid each time.
const onceUnit = time.Minute

// uidFor is the uid of the session that a request makes under a name at a time. One with a word of its caller's
// (schemas.Request.Once) makes the same each time for a while: so the record itself says that the request was carried
// out, after a restart and to another server as well. Later it makes another, since a word may be used again of which
// the log says nothing any more, and a uid may not.
func uidFor(n schemas.Name, req request, at time.Time) schemas.UID {
	if req.Once == "" {
		return newUID()
	}
	h := sha256.New()
	for _, part := range []string{"once", req.by.Actor(), n.Key(), req.Once, req.To, req.Name, strconv.FormatInt(at.Unix()/int64(onceUnit.Seconds()), 10)} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	return schemas.UID(strings.ToLower(text[:22]))
}

// madeBy reports whether a session was made by a request, or by the same one sent before. Its uid was made just before
// its record.
func madeBy(n schemas.Name, req request, r schemas.SessionRecord) bool {
	return r.UID == uidFor(n, req, r.Created) || r.UID == uidFor(n, req, r.Created.Add(-onceUnit))
}

// again answers a request that has made its session before; made is false if it hasn't.
func (s *maker) again(ctx context.Context, n schemas.Name, req request, program string) (out any, made bool, err error) {
	if req.Once == "" {
		return nil, false, nil
	}
	if len(req.Once) > maxOnce {
		return nil, true, schemas.UsageError("the idempotency key has %d bytes, more than %d", len(req.Once), maxOnce)
	}
	ch, stop := s.board.follow(n)
	defer stop()
	v, err := s.records.Get(ctx, n)
	if errors.Is(err, statekv.ErrNoSession) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	if v.State == schemas.Deleted || !madeBy(n, req, v.SessionRecord) {
		return s.before(ctx, n, req)
	}
	if program != "" && v.Program != program {
		return nil, true, schemas.UsageError("session %s was made by another request with this idempotency key", n).WithHint("use each key for one request")
	}
	if v.Queued() || v.State != schemas.Starting && v.State != schemas.Failed && !begins(v) && (v.State != schemas.Resuming || v.Generation > 0) {
		return schemas.ViewOf(v.SessionRecord), true, nil
	}
	asked := v
	asked.Version--
	v, err = awaitFrom(ctx, v, ch, s.sessions.untilRunning(asked))
	return schemas.ViewOf(v.SessionRecord), true, err
}

// before refuses a request whose session was made and deleted, as long as NATS has its log.
func (s *maker) before(ctx context.Context, n schemas.Name, req request) (out any, made bool, err error) {
	revs, err := s.records.History(ctx, n)
	if err != nil {
		return nil, true, err
	}
	for _, v := range revs {
		if madeBy(n, req, v.SessionRecord) {
			return nil, true, schemas.StateError(schemas.ReasonDeleted, "session %s was made by this request before, and deleted", n).
				WithHint("a new request has a new idempotency key")
		}
	}
	return nil, false, nil
}
