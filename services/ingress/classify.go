package ingress

import (
	"mime"
	"net/http"
	"slices"
	"strings"
)

// Class is a request class: what asks for a session, as far as a request shows it.
type Class string

// The classes of what asks.
const (
	Navigation  Class = "navigation"   // a person opened a page
	Fetch       Class = "fetch"        // a program, or a script of a page
	WebSocket   Class = "websocket"    //
	TCP         Class = "tcp"          // a connection of a TCP listener
	Probe       Class = "probe"        // a health check
	LinkPreview Class = "link-preview" // a chat that shows what a link leads to, or a browser that guesses the next page
	Crawler     Class = "crawler"      // a search engine
	Reconnect   Class = "reconnect"    // a page that was left open comes back by itself
)

// Classes lists all classes.
func Classes() []Class {
	return []Class{Navigation, Fetch, WebSocket, TCP, Probe, LinkPreview, Crawler, Reconnect}
}

// robots are words of the User-Agents of robots, in lower case. What such a robot asks for it asks for
// without a person, often again and again.
var robots = []struct {
	class Class
	words []string
}{
	{Probe, []string{
		"kube-probe/", "elb-healthchecker/", "googlehc/", "googlestackdrivermonitoring", "amazon-route53-health-check", "azure traffic manager",
		"edge health probe", "load balancer agent", "consul health check", "blackbox exporter", "prometheus/", "uptimerobot", "uptime-kuma", "pingdom",
		"statuscake", "better stack", "better uptime", "cloudflare-healthchecks", "cloudflare-traffic-manager", "updown.io", "checkly", "site24x7",
		"zabbix", "check_http", "render/1.0",
	}},
	{LinkPreview, []string{
		"slackbot", "slack-imgproxy", "twitterbot", "facebookexternalhit", "facebookcatalog", "linkedinbot", "discordbot", "telegrambot", "whatsapp/",
		"skypeuripreview", "microsoftpreview", "pinterestbot", "redditbot", "mastodon/", "cardyb", "iframely", "embedly", "google-pagerenderer",
		"vkshare", "line-poker", "kakaotalk-scrap", "snap url preview", "synapse (bot", "zoombot", "googlemessages", "ms-search-previewer", "bitlybot",
	}},
	{Crawler, []string{
		"googlebot", "google-inspectiontool", "googleother", "adsbot-google", "mediapartners-google", "bingbot", "bingpreview", "yandexbot", "baiduspider",
		"duckduckbot", "duckassistbot", "yahoo! slurp", "applebot", "gptbot", "oai-searchbot", "claudebot", "claude-searchbot", "perplexitybot", "ccbot/",
		"bytespider", "amazonbot", "meta-externalagent", "ahrefsbot", "semrushbot", "mj12bot", "dotbot/", "petalbot", "seznambot", "archive.org_bot",
		"ia_archiver", "censysinspect", "zgrab", "masscan", "nmap scripting engine", "nuclei", "internetmeasurement",
	}},
}

// Classify says what a request comes from.
func Classify(r *http.Request) Class {
	agent := strings.ToLower(r.UserAgent())
	for _, robot := range robots {
		if slices.ContainsFunc(robot.words, func(w string) bool { return strings.Contains(agent, w) }) {
			return robot.class
		}
	}
	switch {
	case comesBack(r):
		return Reconnect
	case upgradesTo(r.Header, "websocket"):
		return WebSocket
	case guessed(r.Header):
		return LinkPreview
	case agent == "" && !r.ProtoAtLeast(1, 1) && (r.Method == http.MethodOptions || r.Method == http.MethodHead):
		return Probe // HAProxy's, and others' that are as old
	case WantsPage(r):
		return Navigation
	}
	return Fetch
}

// comesBack reports whether a script of a page, or the browser for it, connects again without a person: an
// event stream that knows what it had last, a dev server's client that waits for the server, or VS Code's client whose
// connection to its remote server was cut, which says so.
func comesBack(r *http.Request) bool {
	h := r.Header
	return h.Get("Last-Event-Id") != "" && accepts(h, "text/event-stream") ||
		accepts(h, "text/x-vite-ping") ||
		upgradesTo(h, "websocket") && (lists(h, "Sec-WebSocket-Protocol", "vite-ping") || r.URL.Query().Get("reconnection") == "true" && r.URL.Query().Has("reconnectionToken"))
}

// guessed reports whether a browser fetches ahead what a person may open next.
func guessed(h http.Header) bool {
	return strings.HasPrefix(h.Get("Sec-Purpose"), "prefetch") || h.Get("Purpose") == "prefetch" || h.Get("X-Moz") == "prefetch"
}

// WantsPage reports whether an answer of ours is for a person's eyes, as HTML. Accept says so; where it leaves
// that open Sec-Fetch-Mode does, and User-Agent last.
func WantsPage(r *http.Request) bool {
	html := accepts(r.Header, "text/html") || accepts(r.Header, "application/xhtml+xml")
	structured := accepts(r.Header, "application/json") || accepts(r.Header, "application/problem+json") || accepts(r.Header, "text/event-stream")
	if r.Header.Get("Upgrade") != "" || !html && (structured || !anything(r.Header)) {
		return false
	}
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	if html {
		return true
	}
	return r.Header.Get("Accept") == "" && r.Header.Get("Origin") == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.HasPrefix(r.UserAgent(), "Mozilla/")
}

// anything reports whether a request takes any type of answer.
func anything(h http.Header) bool { return h.Get("Accept") == "" || accepts(h, "*/*") }

// accepts reports whether a type is in Accept by its name, with any weight but 0.
func accepts(h http.Header, want string) bool {
	for _, value := range h.Values("Accept") {
		for one := range strings.SplitSeq(value, ",") {
			name, params, err := mime.ParseMediaType(one)
			if err == nil && name == want && strings.Trim(params["q"], "0.") != "" || err == nil && name == want && params["q"] == "" {
				return true
			}
		}
	}
	return false
}

// upgradesTo reports whether a request asks for another protocol on its connection.
func upgradesTo(h http.Header, protocol string) bool {
	return lists(h, "Connection", "upgrade") && lists(h, "Upgrade", protocol)
}

// lists reports whether a header's list has a token, in any case.
func lists(h http.Header, key, token string) bool {
	for _, value := range h.Values(key) {
		for one := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
	}
	return false
}
