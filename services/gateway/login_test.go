package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

// loginBench is a gateway that leads to ports, before an API with one link, one login and the codes of acme/web's port 80.
func loginBench(t *testing.T, with func(*Options)) (*bench, *inside) {
	t.Helper()
	b, in := doorBench(t, with)
	b.answers("login", func(a asked) (any, *schemas.APIError) {
		expires := time.Now().Add(time.Hour)
		switch {
		case a.token == secret("l") && a.Reach == nil:
			return schemas.TokenView{Token: secret("f") + "." + strings.Repeat("g", 43), Role: schemas.TokenLogin, As: schemas.TokenOwner, Tenant: "acme", Expires: expires}, nil
		case a.token == secret("d") && a.Name == "acme/web" && a.Reach != nil && a.Reach.Port == 80:
			return schemas.TokenView{Token: secret("c"), Role: schemas.TokenPort, As: schemas.TokenOwner, Tenant: "acme", Session: "web", Port: 80, Expires: expires}, nil
		}
		return nil, schemas.FailedError(schemas.ReasonNoToken, "no such token")
	})
	b.answers("login_port", func(a asked) (any, *schemas.APIError) {
		if a.token != both() || a.Name != "acme/web" {
			return nil, schemas.FailedError(schemas.ReasonDenied, "not for it")
		}
		return schemas.TokenView{Token: secret("d"), Role: schemas.TokenCode}, nil
	})
	b.isOf(map[string]schemas.WhoAmI{both(): {Actor: "token:login"}})
	return b, in
}

func both() string { return secret("f") + "." + strings.Repeat("g", 43) }

const own = "Host: localhost:4280"

func TestBrowserLogsIn(t *testing.T) {
	t.Parallel()
	b, _ := loginBench(t, nil)
	r := b.do("POST", "/api/v1/login", `{"code":"`+secret("l")+`"}`, own, "Authorization: ")
	cookies := r.Cookies()
	if r.StatusCode != http.StatusOK || len(cookies) != 1 || cookies[0].Name != loginCookie || cookies[0].Value != secret("f") ||
		!cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Domain != "" || cookies[0].Path != "/" {
		t.Fatalf("the login: %d, %v", r.StatusCode, r.Header)
	}
	if l := read[Login](b, r); l.Page != strings.Repeat("g", 43) || l.Role != schemas.TokenOwner {
		t.Errorf("the page gets %+v", l)
	}
	cookie, page := "Cookie: "+loginCookie+"="+secret("f"), pageHeader+": "+strings.Repeat("g", 43)
	for _, c := range []struct {
		name    string
		status  int
		headers []string
	}{
		{"both", 200, []string{own, cookie, page}},
		{"both, of its own page", 200, []string{own, cookie, page, "Origin: http://localhost:4280"}},
		{"both, of a WebSocket", 200, []string{own, cookie, "Sec-WebSocket-Protocol: diapause, " + pageProtocol + strings.Repeat("g", 43)}},
		{"the cookie alone", 401, []string{own, cookie}},
		{"the header alone", 401, []string{own, page}},
		{"another header", 401, []string{own, cookie, pageHeader + ": " + strings.Repeat("h", 43)}},
		{"the cookie of a port with the header", 401, []string{own, "Cookie: diapause-port=" + secret("f"), page}},
		{"both, of the page of a session", 403, []string{own, cookie, page, "Origin: http://80--web.acme.localhost:4280"}},
		{"both, of another port of the host", 403, []string{own, cookie, page, "Origin: http://localhost:3000"}},
		{"both, by another name", 421, []string{"Host: evil.example", cookie, page}},
	} {
		if r := b.do("GET", "/api/v1/whoami", "", append([]string{"Authorization: "}, c.headers...)...); r.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.name, r.StatusCode, c.status)
		}
	}
	old := []string{own, "Authorization: ", "Cookie: " + loginCookie + "=" + secret("o"), pageHeader + ": " + strings.Repeat("o", 43)}
	b.refused("a login that has ended", b.do("GET", "/api/v1/whoami", "", old...), http.StatusUnauthorized)
	if r := b.do("POST", "/api/v1/login", `{"code":"`+secret("l")+`"}`, old...); r.StatusCode != http.StatusOK {
		t.Errorf("a login after one that has ended: %d", r.StatusCode)
	}
	for name, body := range map[string]string{"a code that there isn't": secret("x"), "the code of a port": secret("d"), "a token": secret("a")} {
		b.refused(name, b.do("POST", "/api/v1/login", `{"code":"`+body+`"}`, own, "Authorization: "), http.StatusUnauthorized)
	}
	b.refused("a page of another site", b.do("POST", "/api/v1/login", `{"code":"`+secret("l")+`"}`, own, "Authorization: ", "Sec-Fetch-Site: cross-site"), http.StatusForbidden)
	for _, path := range []string{"/login", "/login/page.js", "/login/page.css"} {
		if r := b.do("GET", path, "", own, "Authorization: "); r.StatusCode != http.StatusOK || !strings.Contains(r.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %d, %v", path, r.StatusCode, r.Header)
		}
	}
}

// away opens a page of a port without a cookie, and gives the cookie and the state with which the browser is sent away.
func (b *bench) away(path string) (cookie, state string) {
	b.Helper()
	r := b.do("GET", path, "", web, "Authorization: ", "Accept: text/html")
	to, err := url.Parse(r.Header.Get("Location"))
	b.must(err)
	given, err := url.ParseQuery(to.Fragment)
	b.must(err)
	if r.StatusCode != http.StatusSeeOther || to.Host != "localhost:4280" || to.Path != loginPage || to.RawQuery != "" || len(r.Cookies()) != 1 || !r.Cookies()[0].HttpOnly {
		b.Fatalf("it is sent to %s by %d, with %v", to, r.StatusCode, r.Cookies())
	}
	return "Cookie: " + r.Cookies()[0].Name + "=" + r.Cookies()[0].Value, given.Get("state")
}

func TestBrowserGetsTheCookieOfAPort(t *testing.T) {
	t.Parallel()
	b, in := loginBench(t, nil)
	cookie, state := b.away("/a?b=c")
	login := []string{own, "Authorization: ", "Cookie: " + loginCookie + "=" + secret("f"), pageHeader + ": " + strings.Repeat("g", 43)}
	for _, host := range []string{"evil.example", "80--web.acme.localhost.evil.example", "localhost", "127.0.0.1", "web.acme.localhost", "80--web.acme.localhost/", ""} {
		r := b.do("POST", "/api/v1/login/port", `{"host":"`+host+`","state":"`+state+`"}`, login...)
		b.refused("the host "+host, r, http.StatusBadRequest)
	}
	b.refused("another session", b.do("POST", "/api/v1/login/port", `{"host":"80--db.acme.localhost","state":"`+state+`"}`, login...), http.StatusForbidden)
	b.refused("no header", b.do("POST", "/api/v1/login/port", `{"host":"80--web.acme.localhost","state":"`+state+`"}`, login[:3]...), http.StatusUnauthorized)
	// Another port of the host name is another server: the browser goes where the gateway is.
	r := b.do("POST", "/api/v1/login/port", `{"host":"80--web.acme.localhost:9999","state":"`+state+`"}`, login...)
	to := read[GoTo](b, r).To
	back := strings.TrimPrefix(to, "http://80--web.acme.localhost:4280")
	if back == to || !strings.HasPrefix(back, portLogin+"?") {
		t.Fatalf("it is sent to %s", to)
	}
	for name, headers := range map[string][]string{
		"another browser":          {web},
		"another state":            {web, "Cookie: " + stateCookie + "=other.Lw"},
		"a path that leads away":   {web, "Cookie: " + stateCookie + "=" + state + ".Ly9ldmlsLmV4YW1wbGU"},
		"a path that isn't one":    {web, "Cookie: " + stateCookie + "=" + state + ".aHR0cDovL2V2aWwuZXhhbXBsZQ"},
		"its state without a path": {web, "Cookie: " + stateCookie + "=" + state},
	} {
		b.refused(name, b.do("GET", back, "", append([]string{"Authorization: "}, headers...)...), http.StatusBadRequest)
	}
	for _, host := range []string{"Host: 81--web.acme.localhost:4280", "Host: 80--db.acme.localhost:4280"} {
		b.refused(host, b.do("GET", back, "", "Authorization: ", host, cookie), http.StatusUnauthorized)
	}
	clear(b.gate.rates.none) // which had the code refused for the right host, too, as the API does when it was used up
	r = b.do("GET", back, "", "Authorization: ", web, cookie)
	has := r.Cookies()
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/a?b=c" || len(has) != 2 || has[1].Value != secret("c") || has[1].Domain != "" || !has[1].HttpOnly || has[1].SameSite != http.SameSiteLaxMode {
		t.Errorf("it comes back to %d, %v", r.StatusCode, r.Header)
	}
	if in.used.Load() != 0 {
		t.Error("the session was used before the browser had its cookie")
	}
}

// Only a person who opens a page is sent to log in, and only where the browser stays.
func TestWhoIsSentToLogIn(t *testing.T) {
	t.Parallel()
	b, _ := loginBench(t, nil)
	for name, headers := range map[string][]string{
		"a program": {"Accept: application/json"}, "a frame": {"Accept: text/html", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"},
		"a script": {"Accept: */*", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"}, "a token that isn't one": {"Accept: text/html", "Authorization: Bearer " + secret("x")},
	} {
		if r := b.do("GET", "/", "", append([]string{web, "Authorization: "}, headers...)...); r.StatusCode != http.StatusUnauthorized || r.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d, %v", name, r.StatusCode, r.Header)
		}
	}
	if r := b.do("POST", "/", "", web, "Authorization: ", "Accept: text/html"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("a form: %d", r.StatusCode)
	}
	for _, path := range []string{"//evil.example/", "/" + strings.Repeat("a", maxGoing)} {
		if cookie, _ := b.away(path); !strings.HasSuffix(cookie, ".Lw") {
			t.Errorf("from %.40s it comes back by %s", path, cookie)
		}
	}
}
