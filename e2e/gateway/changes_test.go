package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/diapause/diapause/schemas"
)

// changes asks for changes of a session of which the rest of the life has none: the answers are as the document says.
func (a asks) changes() {
	a.Helper()
	const twin = "/api/v1/sessions/{session=acme.twin}"
	var s session
	a.call("PATCH", twin+"/labels", 200, object{"labels": object{"team": "x"}}, &s)
	if s.Labels["team"] != "x" {
		a.Errorf("its labels are %v", s.Labels)
	}
	a.call("PUT", twin+"/ports/{port=8080}", 200, object{"access": "token"}, &s)
	a.call("GET", twin+"/ports/{port=8080}", 200, nil, nil)
	a.call("POST", twin+"/checkpoint", 200, nil, &s)
	a.call("POST", twin+"/checkpoint", 200, nil, &s)
	var shots []schemas.SnapshotView
	a.call("GET", twin+"/snapshots", 200, nil, &shots)
	oldest := slices.MinFunc(shots, func(x, y schemas.SnapshotView) int { return x.At.Compare(y.At) })
	a.call("DELETE", twin+"/snapshots/{snapshot="+oldest.ID+"}", 200, nil, &s)
	a.call("POST", twin+"/checkpoint", 200, nil, &s)
	a.pages(twin+"/snapshots", 2)
	a.pages(twin+"/history", 3)
	a.trials(twin)
	a.people()
	a.machines()
}

// trials has a snapshot tried in the place of the session, kept and left.
func (a asks) trials(twin string) {
	a.Helper()
	var s session
	for _, verb := range []string{"accept", "reject"} { // nothing is on trial
		var p problem
		if a.call("POST", twin+"/"+verb, 409, nil, &p); p.Code != schemas.CodeState || p.Detail == "" {
			a.Errorf("%s: %+v", verb, p)
		}
	}
	a.call("POST", twin+"/dismiss", 200, nil, &s)
	a.call("POST", twin+"/move", 503, nil, nil) // there is one host
	for _, verb := range []string{"accept", "reject"} {
		a.until(verb+" is in time", func() bool { return a.decides(twin, verb) }) // what runs for 10 s is kept by itself
	}
}

// decides has the last snapshot of the session tried in its place, and decides about that. It reports whether that was in time.
func (a asks) decides(twin, verb string) bool {
	a.Helper()
	replaced := make(chan int, 1)
	go func() { replaced <- a.replace() }()
	var s session
	for len(replaced) == 0 && !strings.Contains(s.Underway, "took its place") {
		a.call("GET", twin, 200, nil, &s)
	}
	r := a.send(a.address, "POST", parameter.ReplaceAllString(twin, "$2")+"/"+verb, a.token, `{"reason":"a test"}`)
	got := <-replaced
	if r.StatusCode == http.StatusConflict {
		return false
	}
	if r.StatusCode != http.StatusOK || (got == http.StatusOK) != (verb == "accept") {
		a.Errorf("%s answers %d, and replace %d", verb, r.StatusCode, got)
	}
	return true
}

// replace has the last snapshot of the session tried in its place, and gives the status once that is decided.
func (a asks) replace() int {
	r, err := http.NewRequestWithContext(a.Context(), http.MethodPost, "http://"+a.address+"/api/v1/sessions/acme.twin/replace", nil)
	if err != nil {
		return 0
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// archives puts the session into the archive, and takes it out.
func (a asks) archives(of string) {
	a.Helper()
	var s session
	if a.call("POST", of+"/archive", 200, object{"reason": "a test"}, &s); s.Archived == nil || s.Status != "archived" {
		a.Errorf("in the archive it is %+v", s)
	}
	if a.call("POST", of+"/resume", 200, nil, &s); s.Archived != nil || s.State != schemas.Running {
		a.Errorf("out of it it is %+v", s)
	}
}

// people makes and ends what lets someone in: tokens, keys and logins.
func (a asks) people() {
	a.Helper()
	var token schemas.TokenView
	a.call("POST", "/api/v1/tokens", 201, object{"role": "reader", "tenant": "acme", "for": "1h"}, &token)
	a.pages("/api/v1/tokens", 2)
	a.call("DELETE", "/api/v1/tokens/{token="+token.ID+"}", 200, nil, &token)
	if token.Revoked.IsZero() {
		a.Errorf("the token is %+v", token)
	}
	id, err := age.GenerateX25519Identity()
	a.must(err)
	var keys schemas.KeysView
	a.call("POST", "/api/v1/keys/add?tenant=acme", 200, object{"name": "ann", "recipient": id.Recipient().String()}, &keys)
	a.call("POST", "/api/v1/keys/remove?tenant=acme", 200, object{"recipient": "ann"}, &keys)
	a.call("POST", "/api/v1/keys/rotate?tenant=acme", 200, nil, &keys)
	const signer = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="
	a.call("POST", "/api/v1/keys/trust?tenant=acme", 200, object{"host": "elsewhere", "key": signer}, &keys)
	a.call("POST", "/api/v1/keys/revoke?tenant=acme", 200, object{"host": "elsewhere", "key": signer}, &keys)

	out, err := a.Must("login-link", "--role", "reader")
	a.must(err)
	_, code, _ := strings.Cut(strings.TrimSpace(out), "#code=")
	browser := asks{a.world, a.address, ""}
	var login struct{ Page string }
	head := browser.call("POST", "/api/v1/login", 200, object{"code": code}, &login)
	cookie, _, _ := strings.Cut(head.Get("Set-Cookie"), ";")
	by := []string{"Cookie: " + cookie, "Diapause-Page: " + login.Page}
	browser.call("GET", "/api/v1/whoami", 200, nil, nil, by...)
	browser.call("POST", "/api/v1/logout", 200, nil, nil, by...)
	browser.call("GET", "/api/v1/whoami", 401, nil, nil, by...)
}

// machines asks for what is about hosts and listeners.
func (a asks) machines() {
	a.Helper()
	var hosts []schemas.HostView
	a.call("GET", "/api/v1/hosts?limit=1", 200, nil, &hosts)
	one := "/api/v1/hosts/{host=" + string(hosts[0].Host.Host) + "}"
	var h schemas.HostView
	if a.call("POST", one+"/cordon", 200, nil, &h); h.Order == nil {
		a.Errorf("the host is %+v", h)
	}
	a.call("POST", one+"/uncordon", 200, nil, &h)
	a.call("DELETE", one, 409, nil, nil)

	var l schemas.ListenerView
	a.call("POST", "/api/v1/listeners", 201, object{"session": "acme/twin", "port": 22, "listen": freeAddress(a.T)}, &l)
	a.call("POST", "/api/v1/listeners", 201, object{"session": "acme/web", "port": 22, "listen": freeAddress(a.T)}, nil)
	a.pages("/api/v1/listeners?tenant=acme", 2)
	for _, of := range a.pages("/api/v1/listeners", 2) {
		a.call("DELETE", "/api/v1/listeners/{part=up}/{address="+url.PathEscape(of["address"].(string))+"}", 200, nil, nil)
	}
}

// pages reads a list one by one, and gives what it has, of which there is as much at least.
func (a asks) pages(path string, least int) (all []object) {
	a.Helper()
	join := "?"
	if strings.Contains(path, "?") {
		join = "&"
	}
	var whole, page []object
	a.call("GET", path, 200, nil, &whole)
	next := path + join + "limit=1"
	for next != "" {
		head := a.call("GET", next, 200, nil, &page)
		all = append(all, page...)
		link, rel, _ := strings.Cut(strings.TrimPrefix(head.Get("Link"), "<"), ">")
		if next = ""; rel == `; rel="next"` {
			u, err := url.Parse(link)
			a.must(err)
			target, _, _ := strings.Cut(path, "?")
			next = target + "?" + u.RawQuery
		}
	}
	if len(all) != len(whole) || len(all) < least {
		a.Errorf("%s has %d one by one, and %d at once; want %d at least", path, len(all), len(whole), least)
	}
	return all
}
