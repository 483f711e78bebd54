package gateway

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/ingress"
)

// A browser that is logged in has two secrets: one in a cookie, which no script reads, and one that the gateway's page
// keeps in the storage of its origin. Cookies ignore ports, and sessions may serve on the same host name: a server
// beside the gateway may get the cookie, and no page of another origin has the other secret.
const (
	loginCookie = "diapause-login"
	hostPrefix  = "__Host-" // of cookies that TLS brought, which no other host can have set
	// pageHeader has the page's secret; of a WebSocket, which has no headers from a page, a subprotocol.
	pageHeader   = "Diapause-Page"
	pageProtocol = "diapause.page."
)

// byLogin gives the token that a browser's cookie and its page's secret make together; "" without either.
func byLogin(r *http.Request) string {
	page := r.Header.Get(pageHeader)
	for _, value := range r.Header.Values("Sec-Websocket-Protocol") {
		for one := range strings.SplitSeq(value, ",") {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(one), pageProtocol); ok {
				page = rest
			}
		}
	}
	c, err := r.Cookie(cookieName(r, loginCookie))
	if err != nil { // a proxy has ended TLS, and names neither that nor its host
		c, err = r.Cookie(hostPrefix + loginCookie)
	}
	if err != nil || page == "" {
		return ""
	}
	return c.Value + "." + page
}

// cookieName is the name of a cookie as a request has it.
func cookieName(r *http.Request, name string) string {
	if r.TLS != nil {
		return hostPrefix + name
	}
	return name
}

// cookie makes a cookie for the host name of a request alone, which no script reads. It ends when it expires; at once
// if that is the zero time.
func cookie(r *http.Request, name, value string, expires time.Time, site http.SameSite) http.Cookie {
	c := http.Cookie{Name: cookieName(r, name), Value: value, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: site, MaxAge: int(time.Until(expires).Seconds())}
	if c.MaxAge <= 0 {
		c.Value, c.MaxAge = "", -1
	}
	return c
}

// LoginBody is the code of a link.
type LoginBody struct {
	Code string `json:"code" minLength:"1" maxLength:"200" doc:"Of a link of diapause login-link: good for once"`
}

// Login is who a browser is logged in as.
type Login struct {
	Page    string            `json:"page" doc:"What the page keeps, and sends as the header Diapause-Page: the cookie counts together with it alone"`
	Role    schemas.TokenRole `json:"role"`
	Tenant  schemas.Tenant    `json:"tenant,omitempty"`
	Session schemas.SessionID `json:"session,omitempty"`
	Expires time.Time         `json:"expires"`
}

type loginIn struct {
	Body LoginBody
}

type loginOut struct {
	Cookie http.Cookie `header:"Set-Cookie"`
	Body   Login
}

// LoggedOut is a login that has ended.
type LoggedOut struct {
	ID string `json:"id"`
}

type logoutOut struct {
	Cookie http.Cookie `header:"Set-Cookie"`
	Body   LoggedOut
}

// PortLogin is where a browser is to go that asks for a port.
type PortLogin struct {
	Host  string `json:"host" maxLength:"300" doc:"Of the port, as the browser has asked for it"`
	State string `json:"state" maxLength:"64" pattern:"^[A-Za-z0-9]+$" doc:"Of that host: it sets its cookie for the same browser alone"`
}

// GoTo is where a browser goes.
type GoTo struct {
	To string `json:"to"`
}

type portLoginIn struct {
	Body PortLogin
}

type requestKey struct{}

// requestOf is the request of an operation, for what its inputs don't have.
func requestOf(ctx context.Context) *http.Request {
	r, _ := ctx.Value(requestKey{}).(*http.Request)
	return r
}

// logins are the operations of browsers.
func (g *Gateway) logins() {
	const tag = "logins"
	in := route{verb: "login", method: "POST", path: "/login", tag: tag, summary: "Log a browser in with the code of a link"}.operation()
	in.Security = []map[string][]string{}
	huma.Register(g.doc, in, g.login)
	huma.Register(g.doc, route{verb: "login_port", method: "POST", path: "/login/port", tag: tag, summary: "Have the host of a port give this browser a cookie"}.operation(), g.loginPort)
	huma.Register(g.doc, route{verb: "logout", method: "POST", path: "/logout", tag: tag, summary: "Log this browser out", status: http.StatusOK}.operation(), g.logout)
}

func (g *Gateway) login(ctx context.Context, in *loginIn) (*loginOut, error) {
	from := caller(ctx)
	from.token, from.try = strings.TrimSpace(in.Body.Code), nil
	switch g.rates.tries(&from) {
	case tooMany:
		return nil, refusal(http.StatusTooManyRequests, "too many codes of one address", "ask less often")
	case unknown:
		return nil, problem(errNoToken)
	}
	defer g.rates.drop(from)
	var v schemas.TokenView
	if err := g.ask(context.WithValue(ctx, callerKey{}, from), "login", schemas.Request{}, &v); err != nil {
		return nil, err
	}
	first, page, ok := strings.Cut(v.Token, ".")
	if !ok || v.Role != schemas.TokenLogin {
		return nil, problem(errNoToken)
	}
	return &loginOut{
		Cookie: cookie(requestOf(ctx), loginCookie, first, v.Expires, http.SameSiteStrictMode),
		Body:   Login{Page: page, Role: v.As, Tenant: v.Tenant, Session: v.Session, Expires: v.Expires},
	}, nil
}

func (g *Gateway) logout(ctx context.Context, _ *struct{}) (*logoutOut, error) {
	var v schemas.TokenView
	if err := g.ask(ctx, "logout", schemas.Request{}, &v); err != nil {
		return nil, err
	}
	return &logoutOut{Cookie: cookie(requestOf(ctx), loginCookie, "", time.Time{}, http.SameSiteStrictMode), Body: LoggedOut{ID: v.ID}}, nil
}

// loginPort sends a browser to the host of a port, which is read as a request for it would be: it is a name of a
// session below the domain, at the address at which the browser has reached the gateway. It is nowhere else.
func (g *Gateway) loginPort(ctx context.Context, in *portLoginIn) (*answer[GoTo], error) {
	if g.doors == nil {
		return nil, refusal(http.StatusNotFound, "this gateway leads to no ports", "")
	}
	name := hostName(in.Body.Host)
	target, err := ingress.Parse(g.doors.domain, name, "")
	if err != nil || target.Prefix != "" {
		return nil, refusal(http.StatusBadRequest, "the host isn't that of a port", "")
	}
	if u, err := url.Parse(g.doors.public); g.doors.public != "" && err == nil && ofMachine(name) && hostName(requestOf(ctx).Host) == u.Hostname() {
		// The code would go to the machine of who asks.
		return nil, refusal(http.StatusBadRequest, "the host is of the gateway's own machine", "give the gateway a --domain")
	}
	session, err := g.doors.reaches.name(ctx, target)
	if err != nil {
		return nil, problem(err)
	}
	var v schemas.TokenView
	if err := g.ask(ctx, "login_port", schemas.Request{Name: session, Reach: &schemas.ReachRequest{Port: target.Port}}, &v); err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	to := url.URL{Scheme: schemeOf(r), Host: withPort(name, r), Path: portLogin, RawQuery: url.Values{"code": {v.Token}, "state": {in.Body.State}}.Encode()}
	return &answer[GoTo]{Body: GoTo{To: to.String()}}, nil
}

func schemeOf(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// withPort gives a host name the port at which a request has reached the gateway.
func withPort(name string, r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return net.JoinHostPort(name, port)
	}
	return name
}

// LoginLink is the link to a gateway that logs a browser in with a code.
func LoginLink(base, code string) string {
	return base + loginPage + "#" + url.Values{"code": {code}}.Encode()
}
