package attack

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/events"
	"github.com/diapause/diapause/events/natsconn"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/natsconfig"
)

// tenancy is what a tenant's publisher tries, by its credentials, against other tenants.
type tenancy struct {
	what, want string
	try        func(nc *nats.Conn) error
}

const (
	violation = "permissions violation"
	tooLarge  = "maximum payload exceeded"
	noEffect  = "nothing comes of it"
)

func tenancies() []tenancy {
	names := stream.NamesWith("")
	pub := func(what, subject string) tenancy {
		return tenancy{what, violation, func(nc *nats.Conn) error { return nc.Publish(subject, []byte(`{"name":"other/work"}`)) }}
	}
	sub := func(what, subject string) tenancy {
		return tenancy{what, violation, func(nc *nats.Conn) error { return second2(nc.SubscribeSync(subject)) }}
	}
	reply := func(what, to string) tenancy {
		return tenancy{what, noEffect, func(nc *nats.Conn) error {
			return nc.PublishRequest("diapause.v1.activity.acme.none.input", to, []byte("{}"))
		}}
	}
	header := func(what string, h nats.Header) tenancy {
		return tenancy{what, noEffect, func(nc *nats.Conn) error {
			return nc.PublishMsg(&nats.Msg{Subject: "diapause.v1.activity.acme.none.input", Header: h})
		}}
	}
	return []tenancy{
		pub("say that another tenant's session is used", "diapause.v1.activity.other.work.input"),
		pub("hold another tenant's session", "diapause.v1.activity.other.work.hold.x"),
		pub("the same for all tenants", "diapause.v1.activity.*.work.input"),
		pub("the same behind the stream's subject", "diapause.v1.stored.1.other.work.input"),
		pub("write another tenant's record", "$KV."+names.Sessions()+".other.work"),
		pub("write its keys", "$KV."+names.Keys()+".tenant.other"),
		pub("write its policy", "$KV."+names.Policies()+".tenant.other"),
		pub("take a host's lease", "$KV."+names.Leases()+".host.h1"),
		pub("order a worker to end it", "diapause.v1.command.h1.other.work"),
		pub("ask for a verb", "diapause.v1.api.rm"),
		pub("ask for a verb as a person", "diapause.v1.as.client.rm"),
		pub("open its terminal", "diapause.v1.host.h1.dial"),
		pub("search what its terminal showed", "diapause.v1.host.h1.dial"),
		pub("read its record", "$JS.API.STREAM.MSG.GET."+names.SessionStream()),
		pub("read its activity", "$JS.API.CONSUMER.CREATE."+names.Activity()),
		pub("purge activity", "$JS.API.STREAM.PURGE."+names.Activity()),
		pub("delete the records", "$JS.API.STREAM.DELETE."+names.SessionStream()),
		pub("ask the server who is connected", "$SYS.REQ.ACCOUNT.DIAPAUSE.CONNZ"),
		sub("listen to everything", ">"),
		sub("listen to another tenant's transitions", "diapause.v1.session.other.>"),
		sub("listen to its activity", "diapause.v1.activity.other.>"),
		sub("listen to its terminal's answers", "_INBOX.>"),
		{"send a large message", tooLarge, func(nc *nats.Conn) error {
			return nc.Publish("diapause.v1.activity.acme.none.input", make([]byte, 1<<20))
		}},
		reply("have an acknowledgement write a record", "$KV."+names.Sessions()+".other.work"),
		reply("have an acknowledgement order a worker", "diapause.v1.command.h1.other.work"),
		reply("have an acknowledgement ask for a verb", "diapause.v1.as.client.rm"),
		header("wipe the stream by a header", nats.Header{"Nats-Rollup": {"all"}}),
		header("schedule a message for another", nats.Header{"Nats-Schedule": {"@at 2009-11-10T23:00:00Z"}, "Nats-Schedule-Target": {"diapause.v1.stored.1.other.work.input"}}),
		traced(names),
	}
}

// traced asks the server to say at another's record what becomes of a message.
func traced(names stream.Names) tenancy {
	return tenancy{"trace a message to a record", violation, func(nc *nats.Conn) error {
		return nc.PublishMsg(&nats.Msg{Subject: "diapause.v1.activity.acme.none.input", Header: nats.Header{"Nats-Trace-Dest": {"$KV." + names.Sessions() + ".other.work"}}})
	}}
}

// fleet starts a NATS server as nats-config sets it up, for two tenants, and gives its address and
// the directory of credentials.
func fleet(t *testing.T) (url, creds string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	w, err := natsconfig.Write(natsconfig.Options{
		Fleet: natsconfig.Fleet{Names: stream.NamesWith(""), Tenants: []schemas.Tenant{"acme", "other"}, Hosts: []schemas.HostID{"h1"}},
		Dir:   dir, StoreDir: filepath.Join(dir, "streams"), Listen: "127.0.0.1:0", DNSNames: []string{"localhost"},
	})
	must(err)
	o, err := server.ProcessConfigFile(w.Config)
	must(err)
	o.NoSigs, o.NoLog, o.Port = true, true, server.RANDOM_PORT
	ns, err := server.NewServer(o)
	must(err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server doesn't start")
	}
	return "tls://" + net.JoinHostPort("localhost", strconv.Itoa(ns.Addr().(*net.TCPAddr).Port)), filepath.Join(dir, "creds")
}

// One tenant's publisher changes, reads and stops nothing of another's.
func TestTenants(t *testing.T) {
	url, creds := fleet(t)
	s, _ := stack.Fresh(t)
	if err := s.Up("--docker", "none", "--nats", url, "--creds", filepath.Join(creds, "system.nk")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Must("run", "--name", "other/work", "--idle", "never", "--", "sleep", "100000"); err != nil {
		t.Fatal(err)
	}
	nc, err := natsconn.Connect(t.Context(), url, filepath.Join(creds, "publisher-acme.nk"), "attack", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	before, err := s.View("other/work")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range tenancies() {
		got := noEffect
		last := nc.LastError()
		err := errors.Join(a.try(nc), nc.Flush())
		if err == nil && nc.LastError() != last {
			err = nc.LastError()
		}
		switch {
		case errors.Is(err, nats.ErrPermissionViolation):
			got = violation
		case errors.Is(err, nats.ErrMaxPayload):
			got = tooLarge
		case err != nil:
			got = err.Error()
		}
		if got != a.want {
			t.Errorf("%s: refused with %s, want %s", a.what, got, a.want)
		}
	}
	verbs(t, url, filepath.Join(creds, "publisher-acme.nk"))
	allVerbs(t, url, filepath.Join(creds, "system.nk"))
	ownTenant(t, s, url, filepath.Join(creds, "publisher-other.nk"))
	after, err := s.View("other/work")
	if err != nil || after.State != schemas.Running || after.Epoch != before.Epoch {
		t.Errorf("the other tenant's session was\n%+v\nis\n%+v, %v", before, after, err)
	}
	if out, err := s.Must("explain", "other/work"); err != nil || strings.Contains(out, "hold x") {
		t.Errorf("explain: %s, %v", out, err)
	}
	if _, err := s.Must("audit", "--verify"); err != nil {
		t.Error(err)
	}
	if log := s.Log(); strings.Contains(log, "level=ERROR") {
		t.Errorf("the daemon complained:\n%s", log)
	}
}

// ownTenant has a publisher of the session's own tenant end a hold that a person placed.
func ownTenant(t *testing.T, s *stack.Stack, url, creds string) {
	t.Helper()
	if _, err := s.Must("hold", "other/work", "--for", "1h"); err != nil {
		t.Fatal(err)
	}
	nc, err := natsconn.Connect(t.Context(), url, creds, "attack")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const own = "diapause.v1.activity.other.work."
	for _, err := range []error{
		nc.Publish(own+"hold.cli", []byte(`{"released":true}`)), nc.Publish(own+"hold.cli", []byte(`{"ttl":"1ms"}`)),
		nc.Publish(own+"input", nil), nc.Publish(own+"hold.last", nil), nc.Flush(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		out, err := s.Must("explain", "other/work")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "hold.last (of a publisher)") {
			if !strings.Contains(out, "hold.cli") {
				t.Errorf("a publisher has ended a person's hold:\n%s", out)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a publisher isn't heard:\n%s", out)
		}
	}
}

// verbs asks for verbs on another's session as a tenant's publisher.
func verbs(t *testing.T, url, creds string) {
	t.Helper()
	c, err := events.Connect(events.Options{URL: url, Creds: creds})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, verb := range tenantVerbs {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := c.API().Ask(ctx, verb, schemas.Request{Name: "other/work"}, &schemas.View{})
		cancel()
		if !errors.Is(err, events.ErrDenied) {
			t.Errorf("%s of another tenant's session: %v", verb, err)
		}
	}
}

// tenantVerbs are all verbs of the API; allVerbs looks that none is missing.
var tenantVerbs = []string{
	"accept", "activity", "archive", "audit", "checkpoint", "dismiss", "ensure", "explain", "expose", "fork", "history",
	"host_cordon", "host_drain", "host_ls", "host_rm", "host_show", "host_uncordon", "ingress_add", "ingress_ls", "ingress_rm", "key_add", "key_ls", "key_revoke", "key_rm", "key_rotate", "key_trust", "kill", "label", "list", "login", "login_port", "logout", "move",
	"policy_get", "policy_set", "policy_simulate", "policy_test", "reach", "redact", "reject", "replace", "resume", "rm", "rollback", "run", "share", "shared", "show",
	"snapshot_rm", "snapshots", "stats", "store_check", "store_prune", "store_stats", "suspend", "template_create", "template_ls", "template_rm", "template_run", "template_show",
	"token_create", "token_ls", "token_revoke", "unshare", "usage", "verify", "whoami",
}

// allVerbs compares the list with what the service says that it answers.
func allVerbs(t *testing.T, url, creds string) {
	t.Helper()
	nc, err := natsconn.Connect(t.Context(), url, creds, "attack")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := nc.Request("$SRV.INFO.diapause", nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	var has []string
	for _, e := range info.Endpoints {
		has = append(has, strings.TrimPrefix(e.Subject, schemas.SubjectAPI+"."))
	}
	slices.Sort(has)
	if !slices.Equal(has, tenantVerbs) {
		t.Errorf("the API has %v, tried are %v", has, tenantVerbs)
	}
}
