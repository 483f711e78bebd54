package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// browser asks as the bearer of what a browser has, and gives what it gets.
func (b *bench) browser(token, verb string, req schemas.Request) (v schemas.TokenView, err error) {
	b.Helper()
	out, err := b.bear(token, verb, req)
	if err == nil {
		b.must(json.Unmarshal(out, &v))
	}
	return v, err
}

func reachOf(port uint16, page bool) schemas.Request {
	return schemas.Request{Name: agent.String(), Reach: &schemas.ReachRequest{Port: port, Page: page}}
}

func TestLogins(t *testing.T) {
	b := newBench(t)
	b.running()
	link := b.token(schemas.TokenRequest{Role: schemas.TokenOwner, Link: true}, agent.Tenant)
	if time.Until(link.Expires) > time.Duration(schemas.LinkFor) || link.As != schemas.TokenOwner {
		t.Errorf("the link is %+v", link)
	}
	denied := func(what string, token, verb string, req schemas.Request) {
		t.Helper()
		if _, err := b.bear(token, verb, req); schemas.ReasonOf(err) != schemas.ReasonDenied && schemas.ReasonOf(err) != schemas.ReasonNoToken {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, verb := range []string{"whoami", "list", "show", "token_ls", "login_port", "logout"} {
		denied("a link asks for "+verb, link.Token, verb, reachOf(80, false))
	}
	login, err := b.browser(link.Token, "login", schemas.Request{})
	b.must(err)
	denied("a link is used twice", link.Token, "login", schemas.Request{})
	first, page, _ := strings.Cut(login.Token, ".")
	denied("the cookie alone", first, "whoami", schemas.Request{})
	denied("the page's alone", schemas.TokenPrefix+page, "whoami", schemas.Request{})
	denied("the cookie with another page's", first+"."+strings.TrimPrefix(first, schemas.TokenPrefix), "whoami", schemas.Request{})
	denied("a login makes a token", login.Token, "token_create", schemas.Request{})
	denied("a login of an owner, of another tenant", login.Token, "login_port", schemas.Request{Name: "other/web", Reach: &schemas.ReachRequest{Port: 80}})

	shared := b.token(schemas.TokenRequest{Role: schemas.TokenOperator, Link: true}, "")
	operator, err := b.browser(shared.Token, "login", schemas.Request{})
	b.must(err)
	code := func() string {
		v, err := b.browser(operator.Token, "login_port", reachOf(80, false))
		b.must(err)
		return v.Token
	}
	denied("a code where a link belongs", code(), "login", schemas.Request{})
	wrong := code()
	denied("a code at another port", wrong, "login", reachOf(81, false))
	denied("a code after that", wrong, "login", reachOf(80, false))
	right := code()
	port, err := b.browser(right, "login", reachOf(80, false))
	b.must(err)
	denied("a code is used twice", right, "login", reachOf(80, false))
	if _, err := b.bear(port.Token, "reach", reachOf(80, true)); err != nil {
		t.Errorf("the cookie of the port: %v", err)
	}
	denied("the cookie as a token", port.Token, "reach", reachOf(80, false))
	denied("the cookie at another port", port.Token, "reach", reachOf(81, true))
	denied("a login as a cookie", operator.Token, "reach", reachOf(80, true))
	for _, verb := range []string{"whoami", "show", "ensure", "expose", "login", "login_port"} {
		denied("the cookie of a port asks for "+verb, port.Token, verb, reachOf(80, false))
	}
	_, err = b.bear(operator.Token, "logout", schemas.Request{})
	b.must(err)
	denied("a login that was logged out", operator.Token, "whoami", schemas.Request{})
	denied("the cookie of a port after that", port.Token, "reach", reachOf(80, true))
}

// What isn't as this version makes it proves nothing.
func TestForgedRecordsOfTokens(t *testing.T) {
	whole := schemas.TokenRecord{Role: schemas.TokenPort, As: schemas.TokenOwner, Tenant: "acme", Session: "web", Port: 80, Of: "digest"}
	if c, ok := bearerOf(whole); !ok || c.Role != RolePort || !c.confined() {
		t.Errorf("a cookie: %+v, %t", c, ok)
	}
	for what, change := range map[string]func(*schemas.TokenRecord){
		"no login": func(r *schemas.TokenRecord) { r.Of = "" }, "no session": func(r *schemas.TokenRecord) { r.Session = "" },
		"no port": func(r *schemas.TokenRecord) { r.Port = 0 }, "no role": func(r *schemas.TokenRecord) { r.As = "" },
		"another role": func(r *schemas.TokenRecord) { r.As = "king" }, "a token with a role": func(r *schemas.TokenRecord) { r.Role = schemas.TokenOwner },
		"a login of one port": func(r *schemas.TokenRecord) { r.Role = schemas.TokenLogin },
	} {
		r := whole
		if change(&r); r == whole {
			t.Fatalf("%s changes nothing", what)
		}
		if _, ok := bearerOf(r); ok {
			t.Errorf("%s is taken", what)
		}
	}
}
