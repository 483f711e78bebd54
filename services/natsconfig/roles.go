package natsconfig

import (
	"fmt"
	"slices"

	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
)

// Account is the account that a user is in.
type Account string

// The accounts.
const (
	Main Account = "DIAPAUSE" // the streams and the parts
	Edge Account = "EDGE"     // publishers of activity
)

// User is a client's identity. It has lists of allowed subjects: what isn't in them is
// refused.
type User struct {
	Name      string // of its file of credentials, too
	Account   Account
	Publish   []string
	Subscribe []string
	All       bool // may do everything in its account
}

// Fleet is who there is.
type Fleet struct {
	Names   stream.Names
	Tenants []schemas.Tenant // that have a publisher of their own
	Hosts   []schemas.HostID // that have a worker
}

// everything below a subject.
const below = ".>"

// Users are the users of a fleet.
func (f Fleet) Users() []User {
	users := []User{
		{Name: "system", Account: Main, All: true},
		f.scheduler(), f.api(), f.gateway(), f.reader(), f.client(),
		{Name: "publisher", Account: Edge, Publish: []string{schemas.SubjectActivity + below}},
	}
	for _, h := range f.Hosts {
		users = append(users, f.worker(h))
	}
	for _, t := range f.Tenants {
		users = append(users, User{Name: "publisher-" + string(t), Account: Edge, Publish: []string{schemas.SubjectActivity + "." + string(t) + below}})
	}
	return users
}

// scheduler decides, and stands by for others who do.
func (f Fleet) scheduler() User {
	u := User{Name: "scheduler", Account: Main}
	for _, s := range f.Names.Streams() {
		if s != f.Names.Commands() && s != f.Names.KeyStream() && s != f.Names.TokenStream() && s != f.Names.IngressStream() {
			u.Publish = append(u.Publish, reading(s)...)
		}
	}
	u.Publish = append(u.Publish, "$KV."+f.Names.Sessions()+below, f.Names.OfficeSubject("scheduler"),
		schemas.SubjectCommand+below, schemas.SubjectEvent+below, schemas.SubjectUses, stream.ProbeSubject+below)
	// To count what is too short for the stream. The server takes ">" for a word that "*"
	// allows, so this can't be narrower.
	u.Subscribe = []string{schemas.SubjectActivity + below}
	return u
}

// api answers clients, places sessions, takes over from lost hosts and keeps house: all
// but deciding and running sessions. To explain decisions and to make room it hears all
// that schedulers do.
func (f Fleet) api() User {
	u := User{Name: "api", Account: Main}
	for _, s := range f.Names.Streams() {
		u.Publish = append(u.Publish, reading(s)...)
	}
	for _, b := range f.Names.Buckets() {
		u.Publish = append(u.Publish, "$KV."+b+below)
	}
	u.Publish = append(u.Publish, "$JS.API.STREAM.PURGE."+f.Names.SessionStream(), // of what was moved to the store
		"$JS.API.STREAM.PURGE."+f.Names.TokenStream(), // of what has expired
		schemas.SubjectActivity+below, schemas.SubjectCommand+below, schemas.SubjectEvent+below, schemas.SubjectProgress+below,
		schemas.SubjectHost+".*.observe", schemas.SubjectHost+".*.forget", schemas.SubjectHost+".*.redact", schemas.SubjectHost+".*.imported", schemas.SubjectIngress+".*", answers)
	u.Subscribe = []string{schemas.SubjectActivity + below, schemas.SubjectAPI + below, schemas.SubjectAs + below, schemas.SubjectBearer + below, schemas.SubjectProgress + below, "$SRV" + below, "$SRV"}
	return u
}

// worker runs the sessions of one host. It may write any session's record, since any
// session may come to it, and the keys of tenants, among which it lists its own; of hosts
// and leases only its own.
func (f Fleet) worker(h schemas.HostID) User {
	u := User{Name: "worker-" + string(h), Account: Main}
	host := string(h)
	for _, s := range f.Names.Streams() {
		if s != f.Names.Commands() && s != "KV_"+f.Names.HostOrders() && s != f.Names.TokenStream() && s != f.Names.IngressStream() {
			u.Publish = append(u.Publish, reading(s)...)
		}
	}
	durable := f.Names.Commands() + ".worker-" + host
	u.Publish = append(u.Publish,
		"$KV."+f.Names.Sessions()+below, "$KV."+f.Names.Keys()+below, "$KV."+f.Names.Fleet()+below,
		"$KV."+f.Names.Hosts()+"."+host, f.Names.LeaseSubject(h),
		schemas.SubjectActivity+below, schemas.SubjectEvent+below, schemas.SubjectProgress+below, schemas.SubjectHost+".*.forget",
		"$JS.API.STREAM.INFO."+f.Names.Commands(),
		"$JS.API.CONSUMER.CREATE."+durable+"."+schemas.SubjectCommand+"."+host+below,
		"$JS.API.CONSUMER.INFO."+durable, "$JS.API.CONSUMER.MSG.NEXT."+durable, "$JS.ACK."+durable+below, "$JS.ACK.*.*."+durable+below,
		answers)
	u.Subscribe = []string{schemas.SubjectHost + "." + host + below}
	return u
}

// gateway brings people to their sessions: it reports what they do, wakes, and opens
// connections into sessions. For the bearers of tokens it asks all that these may ask for,
// and it reads the log for them. It reads where it is to listen, and says whether it does.
func (f Fleet) gateway() User {
	return User{
		Name: "gateway", Account: Main,
		Publish: append(slices.Concat(asking("gateway", append([]string{"ensure"}, schemas.LookingVerbs()...)...), reading(f.Names.SessionStream()), reading(f.Names.IngressStream())),
			schemas.SubjectBearer+below, schemas.SubjectActivity+below, schemas.SubjectHost+".*.dial", answers),
		Subscribe: append(watching(), schemas.SubjectIngress+".*"),
	}
}

// reader looks.
func (f Fleet) reader() User {
	return User{Name: "reader", Account: Main, Publish: asking("reader", schemas.LookingVerbs()...), Subscribe: watching()}
}

// client is a person with the command line: every verb, and terminals.
func (f Fleet) client() User {
	return User{
		Name: "client", Account: Main,
		Publish:   []string{schemas.SubjectAPI + below, schemas.SubjectAs + ".client" + below, schemas.SubjectActivity + below, schemas.SubjectHost + ".*.dial", answers, "$SRV" + below},
		Subscribe: watching(),
	}
}

// answers is where those who answer publish: inboxes, whose names are secret.
const answers = "_INBOX.>"

// watching lists the subjects that say what happens.
func watching() []string {
	return []string{schemas.SubjectSession + below, schemas.SubjectEvent + below, schemas.SubjectProgress + below}
}

// asking lets a user ask for verbs: as itself, which no other user may, and as clients do
// that prove no identity.
func asking(user string, verbs ...string) (subjects []string) {
	for _, v := range verbs {
		subjects = append(subjects, schemas.SubjectAs+"."+user+"."+v, schemas.SubjectAPI+"."+v)
	}
	return subjects
}

// reading is what it takes to read a stream: its last words, its messages in order,
// and nothing of its configuration changed.
func reading(name string) []string {
	api := func(what string) string { return "$JS.API." + what + "." + name }
	return []string{
		api("STREAM.INFO"), api("STREAM.MSG.GET"), api("CONSUMER.CREATE"), api("CONSUMER.CREATE") + below, api("CONSUMER.INFO") + ".*",
		api("CONSUMER.DELETE") + ".*", api("CONSUMER.MSG.NEXT") + ".*", "$JS.FC." + name + below,
	}
}

// inbox is where a user hears answers.
func inbox(publicKey string) string { return natsconn.InboxOf(publicKey) + below }

// Validate says what can't be a name.
func (f Fleet) Validate() error {
	for _, t := range f.Tenants {
		if !schemas.ValidToken(string(t)) {
			return fmt.Errorf("tenant %q: want 1 to 64 of A-Z a-z 0-9 _ -", t)
		}
	}
	for _, h := range f.Hosts {
		if !schemas.ValidToken(string(h)) {
			return fmt.Errorf("host %q: want 1 to 64 of A-Z a-z 0-9 _ -", h)
		}
	}
	return nil
}
