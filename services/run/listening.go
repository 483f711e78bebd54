package run

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/ingresskv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// listening takes the TCP connections of a part.
type listening struct {
	nc    *nats.Conn
	names stream.Names
	part  string
	log   *slog.Logger
	all   *ingress.Listeners
}

// listeningOn makes the listeners of a part on its connection; o has how sessions are reached.
func listeningOn(nc *nats.Conn, names stream.Names, part string, o ingress.Options, log *slog.Logger) *listening {
	o.Log = log
	return &listening{nc: nc, names: names, part: part, log: log, all: ingress.NewListeners(o)}
}

// followAgain is the pause after the listeners couldn't be read.
const followAgain = 5 * time.Second

// serve has the part listen where it is to, until ctx ends, and says how that is to those who ask. What fails stops nothing else.
func (l *listening) serve(ctx context.Context) error {
	sub, err := l.nc.Subscribe(schemas.SubjectIngress+"."+l.part, l.answer)
	if err != nil {
		return fmt.Errorf("take questions about listeners: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // of a connection that is closed: nothing to do
	return l.all.Serve(ctx, func(ctx context.Context, take func(schemas.ListenerRecord)) error {
		for said := ""; ; {
			err := l.follow(ctx, take)
			if ctx.Err() != nil {
				return nil
			}
			if text := fmt.Sprint(err); text != said {
				said = text
				l.log.Warn("where to listen for `diapause ingress add` can't be read; what listens goes on", "err", err)
			}
			select {
			case <-time.After(followAgain):
			case <-ctx.Done():
				return nil
			}
		}
	})
}

func (l *listening) follow(ctx context.Context, take func(schemas.ListenerRecord)) error {
	js, err := jetstream.New(l.nc)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	store, err := ingresskv.Open(ctx, js, l.names)
	if err != nil {
		return err
	}
	return store.Watch(ctx, l.part, take, func(err error) { l.log.Warn("not a listener", "err", err) })
}

func (l *listening) answer(m *nats.Msg) {
	data, err := json.Marshal(l.all.States())
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		l.log.Warn("a question about listeners isn't answered", "err", err)
	}
}
