package stream

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/diapause/diapause/schemas"
)

// Partitions is how many parts the activity subjects are spread over by the
// server, so that the work can be split later without renaming anything.
// Changing it remaps every session.
const Partitions = 64

// DefaultPrefix is in front of every stream and bucket name.
const DefaultPrefix = "DIAPAUSE_"

// reached by no session: KV's own bound of 64 would either drop the oldest
// revisions in silence or refuse every write for ever.
const unbounded = int64(1) << 40

// Names are the names of the streams and buckets under a prefix.
type Names struct{ prefix string }

// NamesWith gives the names under a prefix; DefaultPrefix if it is empty.
func NamesWith(prefix string) Names {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return Names{prefix}
}

// Activity names the stream of activity.
func (n Names) Activity() string { return n.prefix + "ACTIVITY" }

// Commands names the work queue of the hosts.
func (n Names) Commands() string { return n.prefix + "COMMANDS" }

// Events names the stream of what happens without changing a state.
func (n Names) Events() string { return n.prefix + "EVENTS" }

// Sessions names the KV bucket of session records.
func (n Names) Sessions() string { return n.prefix + "sessions" }

// Hosts names the KV bucket of hosts.
func (n Names) Hosts() string { return n.prefix + "hosts" }

// HostOrders names the KV bucket of what operators ordered about hosts.
func (n Names) HostOrders() string { return n.prefix + "host_orders" }

// HostOrderSubject is where the order of a host is stored.
func (n Names) HostOrderSubject(h schemas.HostID) string {
	return "$KV." + n.HostOrders() + "." + string(h)
}

// Leases names the KV bucket of the hosts' leases.
func (n Names) Leases() string { return n.prefix + "leases" }

// LeaseStream names the stream behind the bucket of leases.
func (n Names) LeaseStream() string { return "KV_" + n.Leases() }

// LeaseSubject is where a host's lease is stored; every host's if it is empty.
func (n Names) LeaseSubject(h schemas.HostID) string {
	if h == "" {
		h = "*"
	}
	return "$KV." + n.Leases() + ".host." + string(h)
}

// OfficeSubject is where the lease of an office is stored, which one of several
// processes holds at a time: "scheduler".
func (n Names) OfficeSubject(office string) string { return "$KV." + n.Leases() + "." + office }

// Fleet names the KV bucket of what all hosts agree on: the recovery they are in.
func (n Names) Fleet() string { return n.prefix + "fleet" }

// ArchiveSubject is where the end of the chain of log segments is stored.
func (n Names) ArchiveSubject() string { return "$KV." + n.Fleet() + ".archive" }

// Places names the KV bucket of the places on hosts that are asked for.
func (n Names) Places() string { return n.prefix + "places" }

// PlaceSubject is where a place that is asked for is stored.
func (n Names) PlaceSubject(h schemas.HostID, id string) string {
	return "$KV." + n.Places() + "." + string(h) + "." + id
}

// portSubject is where the claim of a port is stored, among the places.
func (n Names) portSubject(port uint16) string {
	return "$KV." + n.Places() + ".port." + strconv.Itoa(int(port)) + ".claim"
}

// Keys names the KV bucket of who may read and write images.
func (n Names) Keys() string { return n.prefix + "keys" }

// KeyStream names the stream behind the bucket of keys.
func (n Names) KeyStream() string { return "KV_" + n.Keys() }

// KeySubject is where the revisions of a tenant's keys are stored; of every
// tenant's if it is empty.
func (n Names) KeySubject(t schemas.Tenant) string {
	if t == "" {
		return "$KV." + n.Keys() + ".fleet"
	}
	return "$KV." + n.Keys() + ".tenant." + string(t)
}

// Policies names the KV bucket of policies.
func (n Names) Policies() string { return n.prefix + "policies" }

// PolicyStream names the stream behind the bucket of policies.
func (n Names) PolicyStream() string { return "KV_" + n.Policies() }

// PolicySubject is where the versions of a scope's policy are stored.
func (n Names) PolicySubject(s schemas.PolicyScope) string {
	return "$KV." + n.Policies() + "." + s.Key()
}

// Tokens names the KV bucket of tokens.
func (n Names) Tokens() string { return n.prefix + "tokens" }

// TokenStream names the stream behind the bucket of tokens.
func (n Names) TokenStream() string { return "KV_" + n.Tokens() }

// TokenSubject is where the record of a token is stored, by the digest of the token.
func (n Names) TokenSubject(digest string) string { return "$KV." + n.Tokens() + "." + digest }

// Ingress names the KV bucket of TCP listeners.
func (n Names) Ingress() string { return n.prefix + "ingress" }

// IngressStream names the stream behind the bucket of listeners.
func (n Names) IngressStream() string { return "KV_" + n.Ingress() }

// IngressSubject is where the listener of a part at an address is stored, whose characters no key could have as they are;
// all of the part if address is empty, all of every part if both are.
func (n Names) IngressSubject(part, address string) string {
	switch {
	case part == "":
		return "$KV." + n.Ingress() + ".*.*"
	case address == "":
		return "$KV." + n.Ingress() + "." + part + ".*"
	}
	return "$KV." + n.Ingress() + "." + part + "." + hex.EncodeToString([]byte(address))
}

// UseHistory names the stream of the use history.
func (n Names) UseHistory() string { return n.prefix + "DIARY" }

// SessionStream names the stream behind the bucket of session records.
func (n Names) SessionStream() string { return "KV_" + n.Sessions() }

// SessionSubject is where a session's revisions are stored.
func (n Names) SessionSubject(name schemas.Name) string {
	return "$KV." + n.Sessions() + "." + name.Key()
}

// Streams lists the names of all streams, those behind buckets included.
func (n Names) Streams() []string {
	var all []string
	for _, cfg := range n.configs(1) {
		all = append(all, cfg.Name)
	}
	return all
}

// Buckets lists the names of all KV buckets.
func (n Names) Buckets() []string {
	var all []string
	for _, s := range n.Streams() {
		if bucket, ok := strings.CutPrefix(s, "KV_"); ok {
			all = append(all, bucket)
		}
	}
	return all
}

// Ensure makes the streams and buckets, or brings existing ones to what they
// have to be. replicas is 1 for an embedded server, 3 in a cluster; 0 leaves as many as an
// existing one has, and makes new ones with 1.
func Ensure(ctx context.Context, js jetstream.JetStream, n Names, replicas int) error {
	for _, cfg := range n.configs(max(replicas, 1)) {
		if err := ensure(ctx, js, cfg, replicas == 0); err != nil {
			return fmt.Errorf("make stream %s: %w", cfg.Name, err)
		}
	}
	return nil
}

func ensure(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, keepReplicas bool) error {
	s, err := js.CreateStream(ctx, cfg)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		if keepReplicas {
			there, err := js.Stream(ctx, cfg.Name)
			if err != nil {
				return err
			}
			cfg.Replicas = there.CachedInfo().Config.Replicas
		}
		s, err = js.UpdateStream(ctx, cfg)
	}
	if err != nil {
		return err
	}
	// A client that makes the bucket in the ordinary way turns these on again:
	// direct reads answer from replicas that may be behind, a rollup header on
	// one key wipes the whole stream.
	got := s.CachedInfo().Config
	if got.AllowDirect || got.AllowRollup {
		return fmt.Errorf("direct reads or rollups are on: delete the stream")
	}
	return nil
}

func (n Names) configs(replicas int) []jetstream.StreamConfig {
	base := func(name string, subjects ...string) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Subjects: subjects, Storage: jetstream.FileStorage, Replicas: replicas,
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, MaxMsgSize: 512 << 10,
		}
	}
	activity := base(n.Activity(), schemas.SubjectActivity+".*.*.>")
	activity.Description = "what services say of sessions; the last word of each kind"
	activity.MaxMsgsPerSubject, activity.MaxAge, activity.AllowMsgTTL = 1, 30*24*time.Hour, true
	// Strangers may publish, so it is bounded. A message that is a little too large is let
	// in to be counted.
	activity.MaxMsgSize, activity.MaxBytes = 2*schemas.MaxActivity, 1<<30
	activity.SubjectTransform = &jetstream.SubjectTransformConfig{
		Source:      schemas.SubjectActivity + ".*.*.>",
		Destination: fmt.Sprintf("%s.{{partition(%d,1,2)}}.{{wildcard(1)}}.{{wildcard(2)}}.>", schemas.SubjectStored, Partitions),
	}
	sessions := base(n.SessionStream(), "$KV."+n.Sessions()+".>")
	sessions.Description = "session records; every revision is a transition"
	sessions.MaxMsgsPerSubject, sessions.DenyDelete = unbounded, true
	sessions.Discard = jetstream.DiscardNew
	sessions.RePublish = &jetstream.RePublish{Source: "$KV." + n.Sessions() + ".>", Destination: schemas.SubjectSession + ".>"}
	keys := base(n.KeyStream(), "$KV."+n.Keys()+".>")
	keys.Description = "who may read and write images; every revision is a change"
	keys.MaxMsgsPerSubject, keys.DenyDelete, keys.Discard = unbounded, true, jetstream.DiscardNew
	policies := base(n.PolicyStream(), "$KV."+n.Policies()+".>")
	policies.Description, policies.MaxMsgsPerSubject, policies.DenyDelete = "what sessions are held to; every revision is a change", 64, true
	tokens := base(n.TokenStream(), "$KV."+n.Tokens()+".>")
	tokens.Description, tokens.MaxMsgsPerSubject = "who may ask over HTTP: digests of tokens, no token", 8
	ingress := base(n.IngressStream(), "$KV."+n.Ingress()+".>")
	ingress.Description, ingress.MaxMsgsPerSubject, ingress.DenyDelete = "where parts take TCP connections for sessions", 8, true
	hosts := base("KV_"+n.Hosts(), "$KV."+n.Hosts()+".>")
	hosts.Description, hosts.MaxMsgsPerSubject = "what each host says of itself", 1
	orders := base("KV_"+n.HostOrders(), "$KV."+n.HostOrders()+".>")
	orders.Description, orders.MaxMsgsPerSubject, orders.DenyDelete = "what operators ordered about hosts; every revision is an order", 64, true
	leases := base(n.LeaseStream(), "$KV."+n.Leases()+".>")
	leases.Description, leases.MaxMsgsPerSubject, leases.DenyDelete = "which host is there", 8, true
	all := base("KV_"+n.Fleet(), "$KV."+n.Fleet()+".>")
	all.Description, all.MaxMsgsPerSubject = "what all hosts agree on: the recovery that they are in, the end of the log's archive", 1
	places := base("KV_"+n.Places(), "$KV."+n.Places()+".>")
	places.Description, places.MaxMsgsPerSubject, places.MaxAge = "the places on hosts that are asked for", 1, PlaceKept
	events := base(n.Events(), schemas.SubjectEvent+".>")
	events.Description = "what happens without changing a session's state"
	events.MaxAge, events.DenyDelete = 365*24*time.Hour, true
	uses := base(n.UseHistory(), schemas.SubjectUses)
	uses.Description = "the silences of sessions that ended, for trying policies on them"
	uses.MaxAge, uses.MaxBytes = 14*24*time.Hour, 256<<20
	commands := base(n.Commands(), schemas.SubjectCommand+".>")
	commands.Description = "wake-up calls for hosts; the newest of a session replaces the older"
	commands.Retention, commands.MaxMsgsPerSubject, commands.MaxAge = jetstream.WorkQueuePolicy, 1, time.Hour
	return []jetstream.StreamConfig{activity, sessions, keys, policies, tokens, ingress, hosts, orders, leases, all, places, events, uses, commands}
}
