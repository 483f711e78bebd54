package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/events/stream"
	"github.com/diapause/diapause/events/tokenkv"
	"github.com/diapause/diapause/schemas"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// sharing is a session with a terminal, that is shared by three of which one has ended by its time.
func sharing() schemas.SessionRecord {
	return schemas.SessionRecord{
		Tenant: "acme", Session: "web", UID: "u", State: schemas.Running, Driver: treeDriver, TTY: true,
		Shares: []schemas.Share{{ID: "old", Until: noon}, {ID: "one", Until: noon.Add(time.Hour)}, {ID: "two", Until: noon.Add(time.Second)}},
	}
}

func ids(all []schemas.Share) (ids []string) {
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestDecideShare(t *testing.T) {
	share := schemas.Share{ID: "new", Until: noon.Add(time.Minute)}
	got, err := decideShare(sharing(), share, "a demo", noon)
	if err != nil || got.Type != schemas.TShared || !slices.Equal(ids(got.Set.Shares), []string{"one", "two", "new"}) ||
		got.Reason != "share new lets others watch until 2026-11-28T12:01:00Z: a demo" {
		t.Errorf("it becomes %+v: %v", got, err)
	}
	for name, change := range map[string]func(*schemas.SessionRecord){
		"a container":        func(r *schemas.SessionRecord) { r.Driver = "docker" },
		"without a terminal": func(r *schemas.SessionRecord) { r.TTY = false },
		"removed":            func(r *schemas.SessionRecord) { r.State = schemas.Deleted },
		"shared often":       func(r *schemas.SessionRecord) { r.Shares = slices.Repeat(r.Shares[1:2], schemas.MaxShares) },
	} {
		r := sharing()
		change(&r)
		if got, err := decideShare(r, share, "", noon); err == nil {
			t.Errorf("%s: it becomes %+v", name, got)
		}
	}
}

func TestDecideUnshare(t *testing.T) {
	for _, c := range []struct {
		what  string
		want  schemas.ShareRequest
		left  []string
		ended []string
		fails bool
	}{
		{"one", schemas.ShareRequest{ID: "two"}, []string{"one"}, []string{"two"}, false},
		{"all", schemas.ShareRequest{All: true}, nil, []string{"one", "two"}, false},
		{"neither, of two", schemas.ShareRequest{}, nil, nil, true},
		{"both", schemas.ShareRequest{ID: "one", All: true}, nil, nil, true},
		{"one that has ended", schemas.ShareRequest{ID: "old"}, nil, nil, true},
		{"one of another session", schemas.ShareRequest{ID: "other"}, nil, nil, true},
	} {
		got, ended, err := decideUnshare(sharing(), c.want, "", noon)
		if (err != nil) != c.fails || !slices.Equal(ended, c.ended) || !slices.Equal(ids(got.Set.Shares), c.left) {
			t.Errorf("%s: %+v, ended %v: %v", c.what, got, ended, err)
		}
		if !c.fails && (got.Type != schemas.TUnshared || !strings.Contains(got.Reason, strings.Join(ended, " ")+" has ended")) {
			t.Errorf("%s: the log says %+v", c.what, got)
		}
	}
	r := sharing()
	r.Shares = r.Shares[:1]
	if got, _, err := decideUnshare(r, schemas.ShareRequest{}, "", noon); err != nil || got.Type != "" {
		t.Errorf("of none it becomes %+v: %v", got, err)
	}
}

func TestShareHolds(t *testing.T) {
	for _, c := range []struct {
		what, id string
		change   func(*schemas.SessionRecord)
		holds    bool
	}{
		{"it", "one", func(*schemas.SessionRecord) {}, true},
		{"of a session that sleeps", "one", func(r *schemas.SessionRecord) { r.State = schemas.Suspended }, true},
		{"ended by its time", "old", func(*schemas.SessionRecord) {}, false},
		{"of another", "three", func(*schemas.SessionRecord) {}, false},
		{"none", "", func(*schemas.SessionRecord) {}, false},
		{"of a session that was removed", "one", func(r *schemas.SessionRecord) { r.State = schemas.Deleted }, false},
		{"of one that has its name now", "one", func(r *schemas.SessionRecord) { r.UID, r.Shares = "v", nil }, false},
	} {
		r := sharing()
		c.change(&r)
		if got, ok := sharedBy(r, c.id, noon); ok != c.holds || ok && got.ID != c.id {
			t.Errorf("%s: %+v, %t", c.what, got, ok)
		}
	}
}

// The record of a share's token proves that alone, and its bearer may ask for nothing else: the answer is that of a token
// which there isn't.
func TestWatcherIsNothingElse(t *testing.T) {
	rec := schemas.TokenRecord{ID: "one", Role: schemas.TokenWatcher, Tenant: "acme", Session: "web", Expires: noon}
	c, ok := bearerOf(rec)
	if !ok || c.Role != RoleWatch || c.Tenant != "acme" || c.Session != "web" {
		t.Fatalf("it proves %+v, %t", c, ok)
	}
	for verb := range New(Options{}).verbs {
		err := confine(c, verb, &schemas.Request{Name: "acme/web"})
		if verb == ofShare && err != nil || verb != ofShare && err != errNoToken {
			t.Errorf("%s: %v", verb, err)
		}
	}
	for name, change := range map[string]func(*schemas.TokenRecord){
		"of every session": func(r *schemas.TokenRecord) { r.Session = "" },
		"of every tenant":  func(r *schemas.TokenRecord) { r.Tenant = "" },
		"of a port":        func(r *schemas.TokenRecord) { r.Port = 80 },
		"as another":       func(r *schemas.TokenRecord) { r.As = schemas.TokenOperator },
		"of a later role":  func(r *schemas.TokenRecord) { r.Role = "painter" },
	} {
		r := rec
		change(&r)
		if c, ok := bearerOf(r); ok {
			t.Errorf("%s: it proves %+v", name, c)
		}
	}
	// A login that a forged link gave the role is none either.
	if c, ok := bearerOf(schemas.TokenRecord{Role: schemas.TokenLogin, As: schemas.TokenWatcher, Tenant: "acme", Session: "web"}); ok && c.Role != RoleWatch {
		t.Errorf("a login as a watcher proves %+v", c)
	}
}

func TestWhoShares(t *testing.T) {
	for role, may := range map[Role]bool{
		RoleAny: true, RoleOwner: true, RoleUse: false, RoleLook: false, RoleReport: false, RoleClient: false, RoleLogin: false, RolePort: false, RoleWatch: false,
	} {
		for _, verb := range []string{"share", "unshare"} {
			if role.may(verb) != may {
				t.Errorf("role %q and %s: %t", role, verb, !may)
			}
		}
	}
	owner := Caller{Role: RoleOwner, Tenant: "acme", Session: "web"}
	for name, may := range map[string]bool{"acme/web": true, "acme/db": false, "other/web": false} {
		err := confine(owner, "share", &schemas.Request{Name: name, Share: &schemas.ShareRequest{For: schemas.Duration(time.Hour)}})
		if (err == nil) != may {
			t.Errorf("an owner shares %s: %v", name, err)
		}
	}
}

// terminal is a session that can be shared.
func (b *bench) terminal() {
	b.Helper()
	v := b.swap(statekv.Versioned{}, schemas.TRun, schemas.Set{
		Host: "h", Op: &schemas.Op{ID: "o", Kind: schemas.OpStart},
		New: &schemas.NewSession{UID: "u", Tenant: agent.Tenant, Session: agent.Session, Class: "web", Driver: treeDriver, TTY: true, Lineage: "u", Born: 3},
	})
	b.swap(v, schemas.TStarted, schemas.Set{})
}

// lists gives the ids of the shares that a session has.
func (b *bench) lists() []string {
	b.Helper()
	v, err := b.records.Get(b.ctx, agent)
	b.must(err)
	return ids(schemas.LiveShares(v.Shares, time.Now()))
}

// A share ends with the token that made it: it isn't listed, and takes no place of one that holds.
func TestSharesEndWithTheTokenThatMadeThem(t *testing.T) {
	b := newBench(t)
	b.terminal()
	owner := b.token(schemas.TokenRequest{Role: schemas.TokenOwner}, agent.Tenant)
	link := b.token(schemas.TokenRequest{Role: schemas.TokenOwner, Link: true}, agent.Tenant)
	login, err := b.browser(link.Token, "login", schemas.Request{})
	b.must(err)
	made := map[string]schemas.ShareMade{}
	for who, token := range map[string]string{"owner": owner.Token, "login": login.Token} {
		out, err := b.bear(token, "share", schemas.Request{Name: agent.String(), Share: &schemas.ShareRequest{For: schemas.Duration(time.Minute)}})
		b.must(err)
		var share schemas.ShareMade
		b.must(json.Unmarshal(out, &share))
		if _, err := b.bear(share.Token, ofShare, schemas.Request{}); err != nil {
			t.Fatalf("the share of the %s: %v", who, err)
		}
		made[who] = share
	}
	out, err := b.server.Call(b.ctx, ann, "share", schemas.Request{Name: agent.String(), Share: &schemas.ShareRequest{For: schemas.Duration(time.Minute)}})
	b.must(err)
	other := out.(schemas.ShareMade)

	_, err = b.server.Call(b.ctx, ann, "token_revoke", schemas.Request{Token: &schemas.TokenRequest{ID: owner.ID}})
	b.must(err)
	if got := b.lists(); len(got) != 2 || slices.Contains(got, made["owner"].ID) {
		t.Errorf("after the token was revoked listed are %v", got)
	}
	_, err = b.bear(login.Token, "logout", schemas.Request{})
	b.must(err)
	if got := b.lists(); !slices.Equal(got, []string{other.ID}) {
		t.Errorf("after the logout listed are %v", got)
	}
	for who, share := range made {
		if _, err := b.bear(share.Token, ofShare, schemas.Request{}); schemas.ReasonOf(err) != schemas.ReasonNoToken {
			t.Errorf("the share of the %s: %v", who, err)
		}
	}
}

// The tokens of shares whose session was removed aren't kept until their time is over.
func TestTokensOfSharesThatAreGone(t *testing.T) {
	b := newBench(t)
	b.terminal()
	out, err := b.server.Call(b.ctx, ann, "share", schemas.Request{Name: agent.String(), Share: &schemas.ShareRequest{For: schemas.MaxShareFor}})
	b.must(err)
	held := out.(schemas.ShareMade)
	store, err := tokenkv.Open(b.ctx, b.js, stream.NamesWith(""))
	b.must(err)
	s := &sharer{tokens: b.server.tokens, sessions: b.server.captures.sessions}
	later := time.Now().Add(sharesWithin + time.Minute)
	ended := func() bool {
		t.Helper()
		s.sweep(b.ctx, store, later)
		all, err := store.List(b.ctx)
		b.must(err)
		if len(all) != 1 || all[0].ID != held.ID {
			t.Fatalf("the tokens are %+v", all)
		}
		return !all[0].Revoked.IsZero()
	}
	if ended() {
		t.Error("the token of a share that holds is ended")
	}
	v, err := b.records.Get(b.ctx, agent)
	b.must(err)
	b.swap(v, schemas.TRemove, schemas.Set{Op: &schemas.Op{ID: "p", Kind: schemas.OpRemove}})
	later = time.Now()
	if ended() {
		t.Error("the token of a share that may not be in the record yet is ended")
	}
	later = later.Add(sharesWithin + time.Minute)
	for !ended() { // the board may be behind
		select {
		case <-b.ctx.Done():
			t.Fatal("the token of a share of a session that was removed isn't ended")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
