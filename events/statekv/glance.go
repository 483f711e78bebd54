package statekv

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Glance is what a revision says to who decides about a session: its Record holds
// uid, tenant, session, version, epoch, state, since, created, born_seq, class, driver,
// host, made_by, idle, on_suspend_failure, on_resume_failure, op, boot, generation, failure,
// activity_seq and archived, and nothing else. It can't be swapped.
type Glance struct {
	Record schemas.SessionRecord
	Rev    Revision
	Stored time.Time // when the log took it, by the server's clock
}

// GlanceOf gives the part of a record that a glance has.
func GlanceOf(v Versioned) Glance {
	r := v.SessionRecord
	return Glance{Rev: v.Rev, Stored: v.Stored, Record: schemas.SessionRecord{
		UID: r.UID, Tenant: r.Tenant, Session: r.Session, Version: r.Version, Epoch: r.Epoch, State: r.State, Since: r.Since,
		Created: r.Created, Born: r.Born, Class: r.Class, Driver: r.Driver, Host: r.Host, MadeBy: r.MadeBy, Idle: r.Idle,
		OnBreaker: r.OnBreaker, OnResume: r.OnResume, Op: r.Op, Boot: r.Boot, Generation: r.Generation, Failure: r.Failure, Seq: r.Seq,
		Archived: r.Archived,
	}}
}

// Glances is Watch for who needs no more than a glance: of a million records, in a
// fifth of the time.
func (s *Store) Glances(ctx context.Context, fn func(Glance), caughtUp func()) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	shared := words{}
	return stream.Consume(ctx, s.js, s.stream, cfg, func(msg *nats.Msg, meta *jetstream.MsgMetadata, _ bool) error {
		g, err := glance(msg.Data, shared)
		if err != nil {
			return fmt.Errorf("%s: decode record at revision %d: %w", msg.Subject, meta.Sequence.Stream, err)
		}
		g.Rev, g.Stored = Revision{meta.Sequence.Stream}, meta.Timestamp
		fn(g)
		return nil
	}, caughtUp, func() {})
}

// glance reads the part of an encoded record. What the quick way doesn't understand
// is read in the ordinary one.
func glance(data []byte, shared words) (Glance, error) {
	var g Glance
	if quickly(data, &g.Record, shared) {
		return g, nil
	}
	var v Versioned
	if err := json.Unmarshal(data, &v.SessionRecord); err != nil {
		return Glance{}, err
	}
	return GlanceOf(v), nil
}

// lastField is the last of a record, which holds nothing that a glance has, and often
// half of it.
const lastField = "transition"

// quickly reads a record as encoding/json writes it, skipping what isn't needed; ok is
// false for anything unusual.
func quickly(data []byte, r *schemas.SessionRecord, shared words) (ok bool) {
	s := scan{data: data}
	if !s.take('{') {
		return false
	}
	for more := true; more; more = s.take(',') {
		key, ok := s.text()
		if !ok || !s.take(':') {
			return false
		}
		if string(key) == lastField {
			return true
		}
		raw, ok := s.value()
		if !ok || !field(r, key, raw, shared) {
			return false
		}
	}
	return s.take('}') && s.at == len(data)
}

// field puts one field into the record.
func field(r *schemas.SessionRecord, key, raw []byte, shared words) bool {
	switch string(key) {
	case "uid":
		return text(raw, (*string)(&r.UID))
	case "tenant":
		return shared.text(raw, (*string)(&r.Tenant))
	case "session":
		return text(raw, (*string)(&r.Session))
	case "state":
		return state(raw, &r.State)
	case "class":
		return shared.text(raw, &r.Class)
	case "driver":
		return shared.text(raw, (*string)(&r.Driver))
	case "host":
		return shared.text(raw, (*string)(&r.Host))
	case "made_by":
		return shared.text(raw, (*string)(&r.MadeBy))
	case "on_suspend_failure":
		return shared.text(raw, (*string)(&r.OnBreaker))
	case "on_resume_failure":
		return shared.text(raw, (*string)(&r.OnResume))
	case "boot":
		return shared.text(raw, (*string)(&r.Boot))
	case "version":
		return number(raw, &r.Version)
	case "epoch":
		return number(raw, &r.Epoch)
	case "born_seq":
		return number(raw, &r.Born)
	case "generation":
		return number(raw, &r.Generation)
	case "activity_seq":
		return number(raw, &r.Seq)
	case "since":
		return r.Since.UnmarshalJSON(raw) == nil
	case "created":
		return r.Created.UnmarshalJSON(raw) == nil
	case "idle":
		return json.Unmarshal(raw, &r.Idle) == nil
	case "op":
		return json.Unmarshal(raw, &r.Op) == nil
	case "archived":
		return json.Unmarshal(raw, &r.Archived) == nil
	case "failure":
		return json.Unmarshal(raw, &r.Failure) == nil
	}
	return true
}
