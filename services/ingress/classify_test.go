package ingress

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
)

const (
	chrome  = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\n"
	firefox = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0\n"
	page    = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7\n"
	any     = "Accept: */*\n"
	ws      = "Connection: keep-alive, Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"
)

// requestOf reads a request whose first line and headers are as a client sends them.
func requestOf(t *testing.T, first, headers string) *http.Request {
	t.Helper()
	if !strings.Contains(first, " HTTP/") {
		first += " HTTP/1.1"
	}
	text := strings.ReplaceAll(first+"\nHost: x\n"+headers+"\n", "\n", "\r\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// The headers are those that the clients send.
func TestClassify(t *testing.T) {
	for what, c := range map[string]struct {
		first, headers string
		want           Class
		page           bool
	}{
		"chrome, a page":               {"GET /", chrome + page + "Sec-Fetch-Mode: navigate\nSec-Fetch-Dest: document\nSec-Fetch-User: ?1\n", Navigation, true},
		"chrome over plain HTTP":       {"GET /", chrome + page, Navigation, true},
		"chrome, a form":               {"POST /", chrome + page + "Sec-Fetch-Mode: navigate\n", Navigation, true},
		"chrome, fetch":                {"GET /api", chrome + any + "Sec-Fetch-Mode: cors\nSec-Fetch-Dest: empty\n", Fetch, false},
		"chrome, an image":             {"GET /a.png", chrome + "Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image\n", Fetch, false},
		"chrome, favicon over HTTP":    {"GET /favicon.ico", chrome + "Accept: image/avif,image/webp,*/*;q=0.8\n", Fetch, false},
		"chrome, fetch of JSON":        {"GET /api", chrome + "Accept: application/json\nSec-Fetch-Mode: cors\n", Fetch, false},
		"JSON before Sec-Fetch-Mode":   {"GET /api", chrome + "Accept: application/json\nSec-Fetch-Mode: navigate\n", Fetch, false},
		"htmx, fetch of HTML":          {"GET /part", chrome + "Accept: text/html, */*\nSec-Fetch-Mode: cors\n", Fetch, false},
		"axios in node":                {"GET /api", "Accept: application/json, text/plain, */*\nUser-Agent: axios/1.7.9\n", Fetch, false},
		"chrome, a websocket":          {"GET /ws", chrome + ws + "Sec-Fetch-Mode: websocket\n", WebSocket, false},
		"node ws":                      {"GET /ws", ws, WebSocket, false},
		"vite's client waits":          {"GET /", chrome + "Accept: text/x-vite-ping\nSec-Fetch-Mode: no-cors\n", Reconnect, false},
		"vite's client waits, newer":   {"GET /", chrome + ws + "Sec-WebSocket-Protocol: vite-ping\n", Reconnect, false},
		"VS Code connects":             {"GET /stable-1?reconnectionToken=7c&reconnection=false&skipWebSocketFrames=false", chrome + ws, WebSocket, false},
		"VS Code connects again":       {"GET /stable-1?reconnectionToken=7c&reconnection=true&skipWebSocketFrames=false", chrome + ws, Reconnect, false},
		"a word of that name":          {"GET /ws?reconnection=true", chrome + ws, WebSocket, false},
		"an event stream":              {"GET /events", chrome + "Accept: text/event-stream\nSec-Fetch-Mode: cors\n", Fetch, false},
		"an event stream again":        {"GET /events", chrome + "Accept: text/event-stream\nLast-Event-ID: 7\n", Reconnect, false},
		"chrome guesses":               {"GET /", chrome + page + "Sec-Purpose: prefetch;prerender\nSec-Fetch-Mode: navigate\n", LinkPreview, true},
		"firefox, a page":              {"GET /", firefox + "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\n", Navigation, true},
		"curl":                         {"GET /", "User-Agent: curl/8.14.1\n" + any, Fetch, false},
		"wget":                         {"GET /", "User-Agent: Wget/1.25.0\n" + any, Fetch, false},
		"python requests":              {"POST /", "User-Agent: python-requests/2.32.5\n" + any, Fetch, false},
		"go":                           {"GET /", "User-Agent: Go-http-client/1.1\nAccept-Encoding: gzip\n", Fetch, false},
		"node fetch":                   {"GET /", any + "Sec-Fetch-Mode: cors\nUser-Agent: node\n", Fetch, false},
		"grpc":                         {"POST /pkg.Service/Call", "Content-Type: application/grpc\nTE: trailers\nUser-Agent: grpc-go/1.85.0\n", Fetch, false},
		"a browser without Accept":     {"GET /", firefox, Navigation, true},
		"HTML with weight 0":           {"GET /", chrome + "Accept: text/html;q=0.0, application/json\n", Fetch, false},
		"kubelet":                      {"GET /healthz", "User-Agent: kube-probe/1.34\n" + any + "Connection: close\n", Probe, false},
		"AWS ELB":                      {"GET /", "User-Agent: ELB-HealthChecker/2.0\n", Probe, false},
		"Google Cloud":                 {"GET /", "User-Agent: GoogleHC/1.0\n", Probe, false},
		"Route 53":                     {"GET /", "User-Agent: Amazon-Route53-Health-Check-Service (ref 1; report http://amzn.to/1vsZADi)\n", Probe, false},
		"HAProxy":                      {"OPTIONS / HTTP/1.0", "", Probe, false},
		"Consul":                       {"GET /", "User-Agent: Consul Health Check\nAccept: text/plain, text/*, */*\n", Probe, false},
		"Prometheus":                   {"GET /metrics", "User-Agent: Prometheus/3.7.0\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\n", Probe, false},
		"UptimeRobot":                  {"HEAD /", "User-Agent: Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)\n" + page, Probe, true},
		"Slack":                        {"GET /", "User-Agent: Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)\n" + any, LinkPreview, false},
		"Twitter":                      {"GET /", "User-Agent: Twitterbot/1.0\n" + any, LinkPreview, false},
		"Facebook":                     {"GET /", "User-Agent: facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)\n" + any, LinkPreview, false},
		"Discord":                      {"GET /", "User-Agent: Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)\n", LinkPreview, true},
		"WhatsApp":                     {"GET /", "User-Agent: WhatsApp/2.23.20.0\nAccept: */*\n", LinkPreview, false},
		"Telegram":                     {"GET /", "User-Agent: TelegramBot (like TwitterBot)\n", LinkPreview, false},
		"Googlebot":                    {"GET /", "User-Agent: Mozilla/5.0 (Linux; Android 6.0.1) AppleWebKit/537.36 Chrome/142.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)\n" + page, Crawler, true},
		"Bing":                         {"GET /", "User-Agent: Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)\n" + any, Crawler, false},
		"GPTBot":                       {"GET /", "User-Agent: Mozilla/5.0 AppleWebKit/537.36 (compatible; GPTBot/1.2; +https://openai.com/gptbot)\n" + any, Crawler, false},
		"a person in a chat's browser": {"GET /", "User-Agent: Mozilla/5.0 (iPhone) AppleWebKit/605.1.15 Mobile/15E148 Snapchat/13.5\n" + page, Navigation, true},
	} {
		r := requestOf(t, c.first, c.headers)
		if got, wants := Classify(r), WantsPage(r); got != c.want || wants != c.page {
			t.Errorf("%s: %s, a page %t, want %s, %t", what, got, wants, c.want, c.page)
		}
	}
}

func TestDecide(t *testing.T) {
	ignoring, err := ParsePolicy([]string{"probe", " navigation"}, []string{"crawler"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		class  Class
		state  schemas.State
		policy Policy
		want   Verdict
	}{
		{Navigation, schemas.Suspended, DefaultPolicy(), Wake},
		{Fetch, schemas.Suspended, DefaultPolicy(), Wake},
		{Fetch, schemas.Suspending, DefaultPolicy(), Wake},
		{Fetch, schemas.Resuming, DefaultPolicy(), Wake},
		{Fetch, schemas.Running, DefaultPolicy(), Pass},
		{WebSocket, schemas.Suspended, DefaultPolicy(), Wake},
		{TCP, schemas.Suspended, DefaultPolicy(), Wake},
		{Probe, schemas.Suspended, DefaultPolicy(), Answer},
		{Probe, schemas.Running, DefaultPolicy(), Pass},
		{Probe, schemas.Suspending, DefaultPolicy(), Answer},
		{LinkPreview, schemas.Suspended, DefaultPolicy(), Answer},
		{Crawler, schemas.Suspended, DefaultPolicy(), Answer},
		{Reconnect, schemas.Suspended, DefaultPolicy(), Answer},
		{Reconnect, schemas.Resuming, DefaultPolicy(), Answer},
		{Probe, schemas.Suspended, ignoring, Wake},
		{Navigation, schemas.Suspended, ignoring, Wake},
		{Fetch, schemas.Suspended, ignoring, Answer},
		{Crawler, schemas.Suspended, ignoring, Ignore},
		{Crawler, schemas.Running, ignoring, Pass},
		{Fetch, "", DefaultPolicy(), Wake},
	} {
		if got := Decide(c.class, c.state, c.policy); got != c.want {
			t.Errorf("%s of a session that is %q: %s, want %s", c.class, c.state, got, c.want)
		}
	}
	for class, want := range map[Class]Use{
		Navigation: {true, true}, Fetch: {true, true}, WebSocket: {true, true}, TCP: {true, true},
		Probe: {}, LinkPreview: {}, Crawler: {}, Reconnect: {Lease: true},
	} {
		if got := UseOf(class, DefaultPolicy()); got != want {
			t.Errorf("%s is %+v, want %+v", class, got, want)
		}
	}
	for _, words := range [][2][]string{{{"navigations"}, nil}, {{"fetch"}, {"fetch"}}} {
		if _, err := ParsePolicy(words[0], words[1]); err == nil {
			t.Errorf("%v is taken for a policy", words)
		}
	}
}
