package permissions

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/events/stream"
)

// everybody are the users that are tried.
var everybody = []string{"scheduler", "api", "worker-h1", "gateway", "reader", "client", "publisher", "publisher-acme"}

// may is who may publish, or subscribe to, a subject; no one else.
type may map[string][]string

func who(names ...string) []string { return names }

// publishing tries every kind of subject that there is.
func publishing() may {
	names := stream.NamesWith("")
	parts := who("scheduler", "api", "worker-h1")
	m := may{
		"diapause.v1.activity.acme.web.input":   who("api", "worker-h1", "gateway", "client", "publisher", "publisher-acme"),
		"diapause.v1.activity.other.web.input":  who("api", "worker-h1", "gateway", "client", "publisher"),
		"diapause.v1.activity.acme.web.hold.me": who("api", "worker-h1", "gateway", "client", "publisher", "publisher-acme"),
		"diapause.v1.activity":                  nil,
		"diapause.v2.activity.acme.web.input":   nil,
		"diapause.v1.stored.1.acme.web.input":   nil,
		"diapause.v1.session.acme.web":          nil,
		"diapause.v1.diary":                     who("scheduler"),
		"diapause.v1.event.acme.web.warning":    parts,
		"diapause.v1.progress.acme.web":         who("api", "worker-h1"),
		"diapause.v1.command.h1.acme.web":       who("scheduler", "api"),
		"diapause.v1.command.h2.acme.web":       who("scheduler", "api"),
		"diapause.v1.host.h1.dial":              who("gateway", "client"),
		"diapause.v1.host.h2.observe":           who("api"),
		"diapause.v1.host.h2.forget":            who("api", "worker-h1"),
		"diapause.v1.host.h2.redact":            who("api"),
		"diapause.v1.host.h2.imported":          who("api"),
		"diapause.v1.host.h2.else":              nil,
		"diapause.v1.api.list":                  who("gateway", "reader", "client"),
		"diapause.v1.api.ensure":                who("gateway", "client"),
		"diapause.v1.api.suspend":               who("client"),
		"diapause.v1.api.run":                   who("client"),
		"diapause.v1.api.rm":                    who("client"),
		"diapause.v1.api.key_add":               who("client"),
		"diapause.v1.as.client.list":            who("client"),
		"diapause.v1.as.client.rm":              who("client"),
		"diapause.v1.as.gateway.list":           who("gateway"),
		"diapause.v1.as.gateway.ensure":         who("gateway"),
		"diapause.v1.as.gateway.suspend":        nil,
		"diapause.v1.as.reader.list":            who("reader"),
		"diapause.v1.as.reader.ensure":          nil,
		"diapause.v1.as.system.rm":              nil,
		"diapause.v1.as.api.rm":                 nil,
		"diapause.v1.as.worker-h1.rm":           nil,
		"diapause.v1.bearer.list":               who("gateway"),
		"diapause.v1.bearer.rm":                 who("gateway"),
		"diapause.v1.ingress.up":                who("api"),
		"$SRV.PING":                             who("client"),
		"_INBOX.another.user":                   who("api", "worker-h1", "gateway", "client"),
		"_R_.x.y":                               nil,
		"anything":                              nil,
		// The records and what else is kept.
		"$KV." + names.Sessions() + ".acme.web":                parts,
		"$KV." + names.Keys() + ".tenant.acme":                 who("api", "worker-h1"),
		"$KV." + names.Fleet() + ".generation":                 who("api", "worker-h1"),
		names.PlaceSubject("h1", "p"):                          who("api"),
		names.HostOrderSubject("h1"):                           who("api"),
		"$KV." + names.Hosts() + ".h1":                         who("api", "worker-h1"),
		"$KV." + names.Hosts() + ".h2":                         who("api"),
		"$KV." + names.Leases() + ".host.h1":                   who("api", "worker-h1"),
		"$KV." + names.Leases() + ".host.h2":                   who("api"),
		"$KV." + names.Leases() + ".scheduler":                 who("scheduler", "api"),
		"$KV." + names.Policies() + ".class.web":               who("api"),
		names.TokenSubject("digest"):                           who("api"),
		names.IngressSubject("up", ":22"):                      who("api"),
		"$KV.somebody_elses.key":                               nil,
		"$O.bucket.C.x":                                        nil,
		"$JS.ACK." + names.Commands() + ".worker-h1.1.1.1.1.0": who("worker-h1"),
		"$JS.ACK." + names.Commands() + ".worker-h2.1.1.1.1.0": nil,
		// The API of JetStream, by which streams are read; none is changed.
		"$JS.API.CONSUMER.MSG.NEXT." + names.Commands() + ".worker-h1":                        who("api", "worker-h1"),
		"$JS.API.CONSUMER.MSG.NEXT." + names.Commands() + ".worker-h2":                        who("api"),
		"$JS.API.CONSUMER.CREATE." + names.Commands() + ".worker-h1.diapause.v1.command.h1.>": who("api", "worker-h1"),
		"$JS.API.CONSUMER.CREATE." + names.Commands() + ".worker-h1.diapause.v1.command.h2.>": who("api"),
		"$JS.API.CONSUMER.CREATE." + names.Commands() + ".x":                                  who("api"),
		"$JS.API.CONSUMER.DELETE." + names.Commands() + ".worker-h2":                          who("api"),
		"$JS.API.INFO": nil, "$JS.API.STREAM.NAMES": nil, "$JS.API.STREAM.LIST": nil,
		"$JS.API.SERVER.REMOVE": nil, "$JS.API.ACCOUNT.PURGE.DIAPAUSE": nil, "$JS.API.META.LEADER.STEPDOWN": nil,
		"$SYS.REQ.SERVER.PING": nil, "$SYS.REQ.ACCOUNT.DIAPAUSE.CONNZ": nil,
	}
	for _, s := range names.Streams() {
		for _, verb := range []string{"CREATE", "UPDATE", "DELETE", "PURGE", "SNAPSHOT", "RESTORE", "MSG.DELETE", "LEADER.STEPDOWN", "PEER.REMOVE"} {
			m["$JS.API.STREAM."+verb+"."+s] = nil
		}
		if s == names.SessionStream() {
			m["$JS.API.STREAM.PURGE."+s] = who("api") // of what it moved to the store
		}
		if s == names.TokenStream() {
			m["$JS.API.STREAM.PURGE."+s] = who("api") // of what has expired
		}
		readers, knows := parts, parts
		switch s {
		case names.Commands():
			readers, knows = who("api"), who("api", "worker-h1")
		case names.KeyStream():
			readers, knows = who("api", "worker-h1"), who("api", "worker-h1")
		case names.TokenStream():
			readers, knows = who("api"), who("api")
		case names.IngressStream():
			readers, knows = who("api", "gateway"), who("api", "gateway")
		case names.SessionStream():
			readers = append(slices.Clone(parts), "gateway")
			knows = readers
		case "KV_" + names.HostOrders():
			readers, knows = who("scheduler", "api"), who("scheduler", "api")
		}
		m["$JS.API.STREAM.MSG.GET."+s] = readers
		m["$JS.API.CONSUMER.CREATE."+s+".mine"] = readers
		m["$JS.API.CONSUMER.DURABLE.CREATE."+s+".mine"] = nil
		m["$JS.API.STREAM.INFO."+s] = knows
	}
	return m
}

func subscribing() may {
	looks := who("gateway", "reader", "client")
	return may{
		">": nil, "*": nil, "*.>": nil, "_INBOX.>": nil, "_INBOX.*.x": nil, "_R_.>": nil, "$SYS.>": nil, "$JS.>": nil, "$JS.API.>": nil, "$KV.>": nil,
		"$KV.DIAPAUSE_sessions.>": nil, "diapause.>": nil, "diapause.v1.>": nil, "diapause.v1.activity.>": who("scheduler", "api"), "diapause.v1.activity.acme.>": who("scheduler", "api"),
		"diapause.v1.activity.*.*": who("scheduler", "api"),
		"diapause.v1.stored.>":     nil, "diapause.v1.command.>": nil, "diapause.v1.command.h1.>": nil,
		"diapause.v1.session.acme.web": looks, "diapause.v1.event.>": looks,
		"diapause.v1.progress.acme.web": who("gateway", "reader", "client", "api"),
		"diapause.v1.api.>":             who("api"), "diapause.v1.api.run": who("api"),
		"diapause.v1.as.>": who("api"), "diapause.v1.as.client.>": who("api"),
		"diapause.v1.host.h1.dial": who("worker-h1"), "diapause.v1.host.h2.dial": nil, "diapause.v1.host.*.dial": nil, "diapause.v1.host.>": nil,
		"diapause.v1.ingress.up": who("gateway"), "diapause.v1.ingress.>": who("gateway"), // which the server takes for a word that "*" allows

		"diapause.v1.bearer.>": who("api"), "diapause.v1.bearer.list": who("api"),
		"$SRV.PING": who("api"),
	}
}

// last is what no one may: its refusal comes after those of all that was tried
// before.
const last = "no.such.subject"

// refused tries all and tells what was refused.
func (f fleet) refused(user, operation string, subjects []string, try func(*nats.Conn, string) error) map[string]bool {
	f.t.Helper()
	refusals := make(chan string, len(subjects)+1)
	nc := f.connect(user, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			refusals <- err.Error()
		}
	}))
	for _, subject := range append(slices.Clone(subjects), last) {
		f.must(try(nc, subject))
	}
	out := map[string]bool{}
	for {
		select {
		case text := <-refusals:
			_, subject, ok := strings.Cut(text, " to ")
			subject, _, _ = strings.Cut(strings.TrimPrefix(subject, `"`), `"`)
			if !ok || !strings.Contains(strings.ToLower(text), operation) {
				f.t.Fatalf("%s: an unexpected refusal: %s", user, text)
			}
			if subject == last {
				return out
			}
			out[subject] = true
		case <-time.After(patience):
			f.t.Fatalf("%s: it may publish or hear %s", user, last)
		}
	}
}

func (m may) check(t *testing.T, user string, refused map[string]bool) {
	t.Helper()
	for subject, users := range m {
		if allowed := slices.Contains(users, user); allowed == refused[subject] {
			t.Errorf("%s on %q: allowed %v, want %v", user, subject, !refused[subject], allowed)
		}
	}
}

// Every user is refused everything but what it needs.
func TestForbidden(t *testing.T) {
	f := newFleet(t)
	publish, subscribe := publishing(), subscribing()
	for _, user := range everybody {
		publish.check(t, user, f.refused(user, "publish", subjects(publish), func(nc *nats.Conn, s string) error { return nc.Publish(s, nil) }))
		subscribe.check(t, user, f.refused(user, "subscription", subjects(subscribe), func(nc *nats.Conn, s string) error {
			_, err := nc.SubscribeSync(s)
			return err
		}))
	}
}

func subjects(m may) (all []string) {
	for s := range m {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// JetStream acknowledges to any reply subject that a message names, with the rights of
// the stream: a publisher must not be able to have it write a key.
func TestAcknowledgementsWriteNothing(t *testing.T) {
	f := newFleet(t)
	names := stream.NamesWith("")
	js, err := jetstream.New(f.connect("system"))
	f.must(err)
	before, activity := f.last(js, names.SessionStream()), f.last(js, names.Activity())
	nc := f.connect("publisher-acme")
	for _, reply := range []string{"$KV." + names.Sessions() + ".acme.web", "diapause.v1.command.h1.acme.web", "$JS.API.STREAM.PURGE." + names.Activity()} {
		f.must(nc.PublishRequest("diapause.v1.activity.acme.web.input", reply, nil))
	}
	f.must(nc.Flush())
	for end := time.Now().Add(patience); f.last(js, names.Activity()) < activity+3; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the activity didn't arrive")
		}
	}
	// What an acknowledgement would have written comes before what is written now.
	for _, subject := range []string{"$KV." + names.Sessions() + ".acme.web", "diapause.v1.command.h1.acme.web"} {
		ack, err := js.Publish(t.Context(), subject, nil)
		f.must(err)
		if ack.Sequence != before+1 {
			t.Errorf("an acknowledgement wrote to %s", subject)
		}
	}
}

func (f fleet) last(js jetstream.JetStream, name string) uint64 {
	f.t.Helper()
	s, err := js.Stream(f.t.Context(), name)
	f.must(err)
	return s.CachedInfo().State.LastSeq
}
