package api

import (
	"slices"
	"strings"
	"testing"
	"time"

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
