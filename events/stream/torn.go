package stream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A server takes subjects with characters that end a word of its protocol for clients ("\r"). A client loses its
// connection when it hears such a message, and again when it reads on there. So activity, which anyone may publish, is
// heard over a connection of its own, and readers pass over what they can't hear.

// Apart gives JetStream over a connection of its own, for a reader of activity; end closes it.
func Apart(js jetstream.JetStream) (own jetstream.JetStream, end func(), err error) {
	o := optionsOf(js.Conn())
	nc, err := o.Connect()
	if err != nil {
		return nil, nil, fmt.Errorf("connect to hear activity: %w", err)
	}
	switch of := js.Options(); {
	case of.Domain != "":
		own, err = jetstream.NewWithDomain(nc, of.Domain)
	case of.APIPrefix != "":
		own, err = jetstream.NewWithAPIPrefix(nc, strings.TrimSuffix(of.APIPrefix, "."))
	default:
		own, err = jetstream.New(nc)
	}
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return own, nc.Close, nil
}

// optionsOf gives the options of a connection but for its handlers, which may be set meanwhile.
func optionsOf(nc *nats.Conn) (o nats.Options) {
	from, to := reflect.ValueOf(&nc.Opts).Elem(), reflect.ValueOf(&o).Elem()
	for i := range from.NumField() {
		switch to.Field(i).Interface().(type) {
		case nats.ConnHandler, nats.ConnErrHandler, nats.ErrHandler:
		default:
			to.Field(i).Set(from.Field(i))
		}
	}
	return o
}

// torn reports whether clients can't hear a message on a subject.
func torn(subject string) bool { return strings.ContainsFunc(subject, unicode.IsControl) }

// passTorn goes on behind a message that can't be heard, if it is what a reader has stood still before: it is called
// each time that one has failed.
func (r *reader) passTorn(ctx context.Context) error {
	at := uint64(1)
	if r.cfg.DeliverPolicy == jetstream.DeliverByStartSequencePolicy {
		at = max(r.cfg.OptStartSeq, 1)
	}
	if r.stuck != at {
		r.stuck = at
		return nil
	}
	next, err := r.following(ctx, at)
	if err != nil || next == nil || !torn(next.Subject) {
		return nil // it fails for another reason
	}
	place := jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: next.Sequence}, Timestamp: next.Time}
	if err := r.fn(&nats.Msg{Subject: next.Subject, Data: next.Data, Header: next.Header}, &place, r.live); err != nil {
		return err
	}
	r.cfg.DeliverPolicy, r.cfg.OptStartSeq, r.cfg.OptStartTime = jetstream.DeliverByStartSequencePolicy, next.Sequence+1, nil
	return nil
}

// following gives the first message from a sequence on that the reader is to hear; nil if there is none. The
// answer has the subject as text of its own.
func (r *reader) following(ctx context.Context, seq uint64) (first *jetstream.RawStreamMsg, err error) {
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	filters := r.cfg.FilterSubjects
	if r.cfg.FilterSubject != "" {
		filters = []string{r.cfg.FilterSubject}
	}
	if len(filters) == 0 {
		filters = []string{">"}
	}
	for _, f := range filters {
		m, err := r.stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(f))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if first == nil || m.Sequence < first.Sequence {
			first = m
		}
	}
	return first, nil
}
