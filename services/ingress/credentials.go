package ingress

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// StripTokens takes tokens of the gateway from the headers of a request, wherever a client may have put them: as the
// bearer's, as the user or password of Basic, or as a subprotocol of a WebSocket. Other credentials are the session's.
func StripTokens(h http.Header) {
	if kept := slices.DeleteFunc(slices.Clone(h.Values("Authorization")), authorizes); len(kept) < len(h.Values("Authorization")) {
		h["Authorization"] = kept
	}
	var protocols []string
	for _, value := range h.Values("Sec-Websocket-Protocol") {
		for one := range strings.SplitSeq(value, ",") {
			if one = strings.TrimSpace(one); one != "" && !strings.HasPrefix(one, schemas.TokenPrefix) && !strings.HasPrefix(strings.ToLower(one), ours+".") {
				protocols = append(protocols, one)
			}
		}
	}
	if h.Del("Sec-Websocket-Protocol"); len(protocols) > 0 {
		h.Set("Sec-Websocket-Protocol", strings.Join(protocols, ", "))
	}
	if leaks(h.Get("Referer")) {
		h.Del("Referer")
	}
}

// authorizes reports whether a value of Authorization has a token of the gateway, in any scheme.
func authorizes(value string) bool {
	scheme, text, _ := strings.Cut(value, " ")
	text = strings.TrimSpace(text)
	if strings.HasPrefix(scheme, schemas.TokenPrefix) || strings.HasPrefix(text, schemas.TokenPrefix) {
		return true
	}
	data, err := base64.StdEncoding.DecodeString(text)
	user, password, _ := strings.Cut(string(data), ":")
	return strings.EqualFold(scheme, "Basic") && err == nil && (strings.HasPrefix(user, schemas.TokenPrefix) || strings.HasPrefix(password, schemas.TokenPrefix))
}

// token is how a token looks.
var token = regexp.MustCompile(regexp.QuoteMeta(schemas.TokenPrefix) + `[A-Za-z0-9_-]{43}`)

// leaks reports whether a URL has a token in it, also an escaped one.
func leaks(text string) bool {
	for range 3 { // escaped twice, it is none to most who would read it
		if token.MatchString(text) {
			return true
		}
		text, _ = url.QueryUnescape(text) // what isn't escaped is looked at as it is
	}
	return false
}

// Foreign reports whether a browser makes a request for a page that isn't the session's own, other than by
// following a link. Sessions of one tenant are one site to a browser, and strangers to each other here.
func Foreign(domain string, a Ask) bool {
	h := a.HTTP.Header
	reads := a.HTTP.Method == http.MethodGet || a.HTTP.Method == http.MethodHead
	dest := h.Get("Sec-Fetch-Dest")
	link := reads && h.Get("Sec-Fetch-Mode") == "navigate" && (dest == "" || dest == "document") // in no frame
	switch h.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "cross-site":
		return !link
	}
	from := h.Get("Origin")
	if from == "" || link {
		return false // no browser, or one that reads without leave to see the answer
	}
	return !ofTarget(domain, from, a)
}

// ForeignToCookie is Foreign for a request with a cookie, which a browser adds also where a page of another session
// only has it load something: a script, or an image.
func ForeignToCookie(domain string, a Ask) bool {
	if Foreign(domain, a) {
		return true
	}
	h := a.HTTP.Header
	link := h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") != "iframe"
	return h.Get("Sec-Fetch-Site") == "same-site" && h.Get("Origin") == "" && !link
}

// ofTarget reports whether an origin is that of the port, or of another port of its session.
func ofTarget(domain, origin string, a Ask) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	if strings.EqualFold(u.Host, a.HTTP.Host) {
		return true
	}
	t, err := Parse(domain, u.Host, "")
	return err == nil && t.Name == a.Target.Name && t.UID == a.Target.UID
}
