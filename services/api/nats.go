package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/schemas"
)

// flushed is how long the server may take to say that it knows the API.
const flushed = 30 * time.Second

// inbound has the requests that came by NATS. None is taken after stop.
type inbound struct {
	server  *Server
	mu      sync.Mutex // guards stopped, and that nothing is added to running after it
	stopped bool
	running sync.WaitGroup
}

// answer takes requests from NATS until ctx ends: those of callers whose subject or token proves
// who they are, and, as a micro service, those of all others.
func (s *Server) answer(ctx context.Context) error {
	in := &inbound{server: s}
	identified, err := s.nc.QueueSubscribe(schemas.SubjectAs+".*.*", micro.DefaultQueueGroup, func(m *nats.Msg) {
		user, verb, _ := strings.Cut(strings.TrimPrefix(m.Subject, schemas.SubjectAs+"."), ".")
		who := from(m.Header)
		who.user = user
		in.take(ctx, who, verb, m.Data, m.Reply)
	})
	if err != nil {
		return fmt.Errorf("subscribe to requests of known users: %w", err)
	}
	bearers, err := s.nc.QueueSubscribe(schemas.SubjectBearer+".*", micro.DefaultQueueGroup, func(m *nats.Msg) {
		verb := strings.TrimPrefix(m.Subject, schemas.SubjectBearer+".")
		who := from(m.Header)
		who.token, who.bearer = m.Header.Get(schemas.HeaderToken), true
		in.take(ctx, who, verb, m.Data, m.Reply)
	})
	if err != nil {
		return fmt.Errorf("subscribe to requests with tokens: %w", err)
	}
	svc, err := micro.AddService(s.nc, micro.Config{Name: "diapause", Version: s.version, Description: "sessions of Diapause"})
	if err != nil {
		return fmt.Errorf("register the API: %w", err)
	}
	group := svc.AddGroup(schemas.SubjectAPI)
	for verb := range s.verbs {
		err := group.AddEndpoint(verb, micro.HandlerFunc(func(r micro.Request) {
			in.take(ctx, from(r.Headers()), verb, r.Data(), r.Reply())
		}))
		if err != nil {
			return fmt.Errorf("register API verb %s: %w", verb, err)
		}
	}
	// Only then the server knows of all that was registered.
	if err := s.nc.FlushTimeout(flushed); err != nil && ctx.Err() == nil {
		return fmt.Errorf("register the API: %w", err)
	}
	close(s.ready)
	<-ctx.Done()
	err = errors.Join(svc.Stop(), identified.Drain(), bearers.Drain())
	in.stop()
	if err != nil && !s.nc.IsClosed() {
		return fmt.Errorf("unregister the API: %w", err)
	}
	return nil
}

// asker is who a message is from, as far as the message says.
type asker struct {
	user   string // that its subject proves; none if empty
	token  string // that is to prove it, of a bearer
	bearer bool
	trace  string
	gzip   bool // it takes answers in that encoding
}

// from gives what the headers of a message say of who asks.
func from(h interface{ Get(string) string }) asker {
	return asker{trace: h.Get(schemas.HeaderTrace), gzip: h.Get(schemas.HeaderTakes) == schemas.Gzip}
}

// take answers a request in a goroutine of its own.
func (in *inbound) take(ctx context.Context, from asker, verb string, data []byte, reply string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stopped { // a request may still come after the service was stopped
		in.server.reply(reply, in.server.encode(nil, context.Canceled))
		return
	}
	in.running.Go(func() { in.server.handle(ctx, from, verb, data, reply) })
}

// stop waits for the requests that were taken.
func (in *inbound) stop() {
	in.mu.Lock()
	in.stopped = true
	in.mu.Unlock()
	in.running.Wait()
}

func (s *Server) handle(ctx context.Context, from asker, verb string, data []byte, reply string) {
	who := Caller{Identity: from.user, Trace: from.trace}
	if from.bearer {
		var err error
		if who, err = s.tokens.bearer(ctx, from.token); err != nil {
			s.reply(reply, s.encode(nil, err))
			return
		}
		who.Trace = from.trace
	}
	var req schemas.Request
	if err := json.Unmarshal(data, &req); err != nil {
		s.reply(reply, s.encode(nil, schemas.UsageError("read the request: %v", err)))
		return
	}
	// The subject alone says who it is: the body is the caller's own word.
	who.Note = schemas.Shown(req.Actor)
	s.reply(reply, from.packed(s.encode(s.Call(ctx, who, verb, req)), s.nc.MaxPayload()))
}

// packed is an answer as who asks gets it: in an encoding that it takes if it has more bytes than most.
func (a asker) packed(answer *nats.Msg, most int64) *nats.Msg {
	if !a.gzip || int64(len(answer.Data)) <= most {
		return answer
	}
	var out bytes.Buffer
	to := gzip.NewWriter(&out)
	_, err := to.Write(answer.Data)
	if errors.Join(err, to.Close()) != nil {
		return answer // a buffer takes all
	}
	return &nats.Msg{Data: out.Bytes(), Header: nats.Header{schemas.HeaderEncoding: {schemas.Gzip}}}
}

// encode makes the message that answers a request.
func (s *Server) encode(out any, err error) *nats.Msg {
	if err == nil {
		var data []byte
		if data, err = json.Marshal(out); err == nil {
			return &nats.Msg{Data: data}
		}
		err = fmt.Errorf("encode the answer: %w", err)
	}
	return encodeError(coded(err))
}

// reply answers a request. What is said on some subjects is taken for a request, or kept:
// a caller could have the server say there, with the server's rights, what it may not.
func (s *Server) reply(to string, answer *nats.Msg) {
	if answer.Subject = to; to == "" {
		return // the caller doesn't wait
	}
	if strings.HasPrefix(to, "diapause.") || strings.HasPrefix(to, "$") {
		s.log.Warn("request not answered: that is no inbox", "subject", to)
		return
	}
	err := s.nc.PublishMsg(answer)
	if errors.Is(err, nats.ErrMaxPayload) && answer.Header.Get(micro.ErrorCodeHeader) == "" {
		e := schemas.FailedError(schemas.ReasonTooLarge, "the answer has %d bytes, more than NATS carries", len(answer.Data)).
			WithHint("ask for less: one session, or one tenant; or raise max_payload of the NATS server")
		s.reply(to, encodeError(e))
		return
	}
	if err != nil {
		s.log.Warn("request not answered", "err", err)
	}
}
