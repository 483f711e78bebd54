package gateway

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/diapause/diapause/events/attach"
	"github.com/diapause/diapause/events/tunnel"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/services/search"
)

// FoundPage is a part of the lines that were found.
type FoundPage struct {
	Found    []attach.Found `json:"found" doc:"The last one first"`
	Searched int            `json:"searched" doc:"How many sessions were searched"`
	Next     string         `json:"next,omitempty" doc:"The before of the next page; none if this is the last"`
	Missing  []string       `json:"missing,omitempty" doc:"What couldn't be searched, a sentence each"`
}

type searchIn struct {
	Waiting
	Linked
	Query   string         `query:"q" maxLength:"1024" doc:"The words that a line has to have, in either case; several in double quotes in a row"`
	Regexp  bool           `query:"regexp" doc:"q is one regular expression (RE2): with session or since"`
	Session string         `query:"session" maxLength:"129" doc:"Of this session alone: TENANT.ID, or ID for the tenant default"`
	Tenant  schemas.Tenant `query:"tenant" doc:"Of the sessions of this tenant alone"`
	Label   []string       `query:"label,explode" maxItems:"16" doc:"Of the sessions with this label alone: K=V, or K with any value; several times for all of them"`
	Since   string         `query:"since" doc:"Not before a moment: so long ago, as 2h, or a time (RFC 3339)"`
	Until   string         `query:"until" doc:"Before a moment"`
	Exit    string         `query:"exit" pattern:"^(nonzero|-?[0-9]{1,10})$" doc:"Of commands that ended with this status, or with any but 0: nonzero"`
	In      string         `query:"in" enum:"commands,output" doc:"In one of the two alone"`
	Context int            `query:"context" minimum:"0" maximum:"20" default:"1" doc:"So many lines before and after each"`
	Limit   int            `query:"limit" minimum:"1" maximum:"100" default:"20"`
	Before  string         `query:"before" maxLength:"1024" doc:"The next of the page before"`
}

// The bounds of searches.
const (
	foundBytes  = 4 << 20 // of the lines of a page
	hostLines   = 1000    // that a host is asked for at most
	perSearcher = 4       // searches of one token at a time
	allSearches = 32
)

// searches answers what is looked for in recordings.
type searches struct {
	readings
	slots slots
}

func newSearches(g readings) *searches {
	return &searches{readings: g, slots: slots{what: "searches", each: perSearcher, most: allSearches}}
}

// operations are the ways to search.
func (s *searches) operations() {
	for _, r := range []route{
		{id: "search", path: "/search", tag: "recordings", summary: "Find lines in what terminals showed, and commands that were typed in them; this is never activity"},
		{id: "terminal_search", path: "/terminal/sessions/search", tag: "earlier designs", summary: "The same as search"},
	} {
		r.method = http.MethodGet
		op := r.operation()
		op.Extensions = nil // it is no verb
		op.Description = contentRight
		huma.Register(s.gate.doc, op, func(ctx context.Context, in *searchIn) (*answer[FoundPage], error) {
			out, err := s.search(ctx, in)
			if err != nil {
				return nil, problem(err)
			}
			return &answer[FoundPage]{Body: out, Link: in.next("before", out.Next)}, nil
		})
	}
}

// search asks the hosts of the sessions that the token is for. Whether it may see what terminals showed is looked at first.
func (s *searches) search(ctx context.Context, in *searchIn) (out FoundPage, err error) {
	me, err := s.mayRead(ctx)
	if err != nil {
		return out, err
	}
	q, last, err := in.asked(me, time.Now())
	if err != nil {
		return out, err
	}
	end, p := s.slots.begin(me.Actor)
	if p != nil {
		return out, p
	}
	defer end()
	wait, err := in.limit()
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(time.Duration(wait), defaultWait))
	defer cancel()
	hosts, err := s.hosts(ctx, in, *q.Scope)
	if err != nil {
		return out, err
	}
	var notes notes
	got, err := search.Asking{Search: q, Dial: s.dial, Notes: &notes, Keep: in.Limit + 1, Bytes: foundBytes, Skip: last.has}.Ask(ctx, hosts)
	if err != nil {
		return out, searchProblem(err)
	}
	out = FoundPage{Found: got.Found, Searched: got.Searched, Missing: notes.taken()}
	for _, f := range got.Failed {
		out.Missing = append(out.Missing, schemas.Shown(fmt.Sprintf("%d sessions of host %s couldn't be searched: %v", f.Sessions, f.Host, f.Err)))
	}
	if last.passed {
		out.Missing = append(out.Missing, fmt.Sprintf("of one moment more than %d lines aren't listed", hostLines))
	}
	if len(out.Found) > in.Limit {
		out.Found, got.More = out.Found[:in.Limit], true
	}
	if got.More && len(out.Found) > 0 {
		out.Next = last.after(out.Found).String()
	}
	return out, nil
}

// searchProblem is what keeps all hosts from searching.
func searchProblem(err error) error {
	var remote attach.RemoteError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &schemas.APIError{Code: schemas.CodeTimeout, Text: "the search takes longer than its time limit", Hint: "name a session or a time range, or give a longer wait"}
	case errors.Is(err, search.ErrAway), errors.Is(err, attach.ErrLost):
		return schemas.FailedError(schemas.ReasonHostGone, "%v", err).WithHint("ask again")
	case errors.As(err, &remote):
		return schemas.StateError(schemas.ReasonUnreadable, "%s", schemas.Shown(err.Error()))
	}
	return err
}

// hosts gives the sessions that are to be searched: those that the API shows to the token, within the scope.
func (s *searches) hosts(ctx context.Context, in *searchIn, scope attach.Scope) (map[schemas.HostID][]attach.Searched, error) {
	var views []schemas.View
	if scope.Session != "" {
		var v schemas.View
		if err := s.gate.ask(ctx, "show", schemas.Request{Name: schemas.Name{Tenant: scope.Tenant, Session: scope.Session}.String()}, &v); err != nil {
			return nil, err
		}
		views = []schemas.View{v}
	} else if err := s.gate.ask(ctx, "list", schemas.Request{Tenant: scope.Tenant, List: &schemas.ListRequest{Labels: in.Label}}, &views); err != nil {
		return nil, err
	}
	return search.ByHost(slices.DeleteFunc(views, func(v schemas.View) bool {
		n, err := schemas.ParseName(v.Name)
		return err != nil || !scope.Has(n) || !schemas.Labelled(v.Labels, in.Label)
	})), nil
}

// dial connects to a host.
func (s *searches) dial(ctx context.Context, host schemas.HostID, hello []byte) (net.Conn, error) {
	conn, err := tunnel.Dial(ctx, s.gate.nc, schemas.SubjectHost+"."+string(host)+".dial", hello)
	if errors.Is(err, tunnel.ErrNoListener) {
		return nil, search.ErrAway
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// asked is what is asked of hosts, and where the page before ended.
func (in *searchIn) asked(me schemas.WhoAmI, now time.Time) (q attach.Search, last *pageEnd, err error) {
	q = attach.Search{Words: wordsOf(in.Query), Regexp: in.Regexp, Exit: in.Exit, In: in.In, Context: in.Context}
	if in.Regexp {
		if q.Words = []string{in.Query}; in.Query != "" {
			if _, err := regexp.Compile(in.Query); err != nil {
				return q, nil, schemas.UsageError("q: it is no regular expression: %v", err)
			}
		}
	}
	if q.Scope, err = in.scope(me); err != nil {
		return q, nil, err
	}
	if q.Since, err = momentOf("since", in.Since, now); err == nil {
		q.Until, err = momentOf("until", in.Until, now)
	}
	switch {
	case err != nil:
		return q, nil, err
	case len(q.Words) == 0 || in.Query == "":
		return q, nil, schemas.UsageError("q: want words")
	case len(q.Words) > maxSought || len(in.Query) > maxQuery || !utf8.ValidString(in.Query):
		return q, nil, schemas.UsageError("q: want at most %d words of UTF-8, in %d bytes", maxSought, maxQuery)
	case !q.Until.IsZero() && !q.Since.Before(q.Until):
		return q, nil, schemas.UsageError("until: it isn't after since")
	case (in.Regexp || !strings.ContainsFunc(in.Query, inWords)) && q.Scope.Session == "" && in.Since == "":
		return q, nil, schemas.UsageError("q: no index helps with that").WithHint("give a session, or since as 2h")
	}
	last, err = pageEndOf(in.Before)
	if err != nil {
		return q, nil, err
	}
	q.Limit = last.bound(&q, in.Limit+1)
	return q, last, nil
}

// Bounds of what hosts look for: words, and bytes.
const (
	maxSought = 32
	maxQuery  = 1 << 10
)

// inWords reports whether a character is one of words, which indexes have.
func inWords(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) }

// scope is whose sessions hosts may search: what is asked for, within what the token is for.
func (in *searchIn) scope(me schemas.WhoAmI) (*attach.Scope, error) {
	tenant, session := string(in.Tenant), strings.Replace(in.Session, "/", ".", 1)
	if of, id, ok := strings.Cut(session, "."); ok {
		if session = id; tenant != "" && tenant != of {
			return nil, schemas.UsageError("session %.129q isn't of the tenant %.64q", in.Session, tenant)
		}
		tenant = of
	} else if session != "" && tenant == "" && me.Session == "" {
		tenant = string(schemas.DefaultTenant)
	}
	tenant, session, p := scope(me, tenant, session)
	if p != nil {
		return nil, p
	}
	out := &attach.Scope{}
	if tenant != "*" {
		out.Tenant = schemas.Tenant(tenant)
	}
	if session != "*" {
		out.Session = schemas.SessionID(session)
	}
	return out, nil
}

// wordsOf cuts what is looked for into its words; what double quotes are around is one. A quote that isn't closed yet goes to the end.
func wordsOf(text string) (words []string) {
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 0 {
			words = append(words, strings.Fields(part)...)
		} else if part = strings.TrimSpace(part); part != "" {
			words = append(words, part)
		}
	}
	return words
}

// momentOf reads a time, or how long ago it was; zero of none.
func momentOf(name, text string, now time.Time) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if ago, err := schemas.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return at, schemas.UsageError("%s %.40q: want a time such as 2h or 2026-05-04T15:30:00Z", name, text)
	}
	return at, nil
}

// pageEnd is the last line of a page. The one that comes after it is before it in time, or of the same moment and behind it in order.
type pageEnd struct {
	Time    time.Time `json:"t"`
	Session string    `json:"s"`
	At      int64     `json:"a"`
	In      string    `json:"i"`
	Same    int       `json:"n"` // lines of that moment that all pages had so far

	passed bool // the rest of that moment is left out
}

// pageEndOf reads one, as a client sends it; of the zero time if it sends none.
func pageEndOf(text string) (*pageEnd, error) {
	e := &pageEnd{}
	if text == "" {
		return e, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(data, e) != nil || e.Time.IsZero() || e.Same < 1 {
		return nil, schemas.UsageError("before %.40q: want the next of a page", text)
	}
	return e, nil
}

func (e *pageEnd) String() string {
	data, _ := json.Marshal(e) // it has nothing that can't be encoded
	return base64.RawURLEncoding.EncodeToString(data)
}

// bound has hosts look for what comes behind a page alone, and gives how many lines they are asked for. They send the lines of its
// last moment once more.
func (e *pageEnd) bound(q *attach.Search, lines int) int {
	if e.Time.IsZero() {
		return lines
	}
	until := e.Time.Add(1)
	if e.passed = e.Same > hostLines-lines; e.passed {
		until = e.Time
	} else {
		lines += e.Same
	}
	if q.Until.IsZero() || until.Before(q.Until) {
		q.Until = until
	}
	return lines
}

// has reports whether a page had a line, or one before it had.
func (e *pageEnd) has(f attach.Found) bool {
	return !e.Time.IsZero() && attach.Newest(f, attach.Found{Time: e.Time, Session: e.Session, At: e.At, In: e.In}) <= 0
}

// after is the end of the page that follows.
func (e *pageEnd) after(found []attach.Found) *pageEnd {
	f := found[len(found)-1]
	next := &pageEnd{Time: f.Time, Session: f.Session, At: f.At, In: f.In}
	for _, one := range found {
		if one.Time.Equal(f.Time) {
			next.Same++
		}
	}
	if e.Time.Equal(f.Time) {
		next.Same += e.Same
	}
	return next
}
