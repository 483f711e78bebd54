package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Subject prefixes of version 1 of the wire.
const (
	SubjectActivity = "diapause.v1.activity" // .<tenant>.<session>.<kind>[.<key>]: what services publish
	SubjectStored   = "diapause.v1.stored"   // .<partition>.<tenant>.<session>.<kind>[.<key>]: what the stream makes of it
	SubjectSession  = "diapause.v1.session"  // .<tenant>.<session>: every revision of a record
	SubjectEvent    = "diapause.v1.event"    // .<tenant>.<session>.<type>
	SubjectCommand  = "diapause.v1.command"  // .<host>.<tenant>.<session>
	SubjectAPI      = "diapause.v1.api"      // .<verb>: requests of callers that prove no identity
	SubjectAs       = "diapause.v1.as"       // .<user>.<verb>: requests of a NATS user, which alone may publish there
	SubjectBearer   = "diapause.v1.bearer"   // .<verb>: requests that a token proves, see HeaderToken
	SubjectUses     = "diapause.v1.diary"    // the use history
	SubjectHost     = "diapause.v1.host"     // .<host>.dial
	SubjectProgress = "diapause.v1.progress" // .<tenant>.<session>: core NATS, not kept
)

// Kind is a kind of activity.
type Kind string

// The kinds of activity. Presence, busy and hold are leases: they carry a key,
// and count while they live.
const (
	KindInput     Kind = "input"
	KindExec      Kind = "exec"
	KindHTTP      Kind = "http"
	KindHeartbeat Kind = "heartbeat"
	KindOutput    Kind = "output"
	KindPresence  Kind = "presence"
	KindBusy      Kind = "busy"
	KindHold      Kind = "hold"
	KindAgent     Kind = "agent" // .<trigger>: what an agent is doing; the policy may make a checkpoint of it
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{KindInput, KindExec, KindHTTP, KindHeartbeat, KindOutput, KindPresence, KindBusy, KindHold, KindAgent}
}

// Lease reports whether activity of this kind has a lifetime and a key.
func (k Kind) Lease() bool { return k == KindPresence || k == KindBusy || k == KindHold }

// Known reports whether k is one of the kinds above.
func (k Kind) Known() bool {
	switch k {
	case KindInput, KindExec, KindHTTP, KindHeartbeat, KindOutput, KindAgent:
		return true
	}
	return k.Lease()
}

// Activity is the payload of a message on an activity subject. All of it is
// optional: the subject and the server's timestamp are enough.
type Activity struct {
	TTL      Duration `json:"ttl,omitempty"`      // of a lease, from when the server accepted the message
	Released bool     `json:"released,omitempty"` // the lease ends now
	Intent   string   `json:"intent,omitempty"`   // "reconnect": neither wakes nor undoes a suspend
	Reason   string   `json:"reason,omitempty"`   // for people
	By       string   `json:"by,omitempty"`       // who published it
	RunID    string   `json:"run_id,omitempty"`   // of an agent's run
	Action   string   `json:"action,omitempty"`   // that an agent is about to take, or took
	Commands int64    `json:"commands,omitempty"` // of output.commands: how many were typed in its recorded terminal so far
}

// KeyCommands is the key of an output with which a worker says how many commands were typed.
const KeyCommands = "commands"

// IntentReconnect marks activity that a program caused, not a person: a client
// that reconnects by itself.
const IntentReconnect = "reconnect"

// Lifetimes of leases: what one without a ttl gets, and the most that is
// granted.
const (
	DefaultLease = 60 * time.Second
	MaxLease     = 30 * 24 * time.Hour
)

// LeaseKept is how long the stream keeps the message of a lease with a ttl: well
// beyond its end, so that a reader that has to know of it still finds it, and no longer,
// so that the subjects of connections don't pile up.
func LeaseKept(ttl time.Duration) time.Duration { return min(ttl, MaxLease) + 10*time.Minute }

// Why a message isn't activity; match with errors.Is.
var (
	ErrSubject = errors.New("not the subject of an activity")
	ErrKind    = errors.New("unknown kind of activity")
	ErrPayload = errors.New("not the payload of an activity")
	ErrTooBig  = errors.New("larger than any activity")
)

// MaxActivity is the most that one message may have, in bytes, its headers
// included.
const MaxActivity = 16 << 10

// MaxUncredentialed is the same for publishers without credentials, whom the embedded server and
// the activity port of a session hold to it.
const MaxUncredentialed = 1 << 10

// ParseActivity reads a payload; an empty one is valid. What is for people is made
// safe to show: cut short, and without control characters.
func ParseActivity(data []byte) (Activity, error) {
	var a Activity
	if len(data) == 0 {
		return a, nil
	}
	if quickly(data, &a) {
		return a, nil
	}
	a = Activity{}
	if err := json.Unmarshal(data, &a); err != nil {
		return Activity{}, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	return a.checked()
}

func (a Activity) checked() (Activity, error) {
	if a.TTL < 0 {
		return Activity{}, fmt.Errorf("%w: ttl %s, want a positive duration", ErrPayload, time.Duration(a.TTL))
	}
	a.Intent, a.Reason, a.By = shown(a.Intent, 32), shown(a.Reason, 256), shown(a.By, 128)
	a.RunID, a.Action = shown(a.RunID, 128), shown(a.Action, maxAction)
	return a, nil
}

// shown makes a stranger's text fit to be shown on a terminal, and no longer than n
// bytes.
func shown(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// ActivitySubject is where activity of a session is published. The key is for
// leases.
func ActivitySubject(n Name, k Kind, key string) string {
	s := SubjectActivity + "." + n.Key() + "." + string(k)
	if key != "" {
		s += "." + key
	}
	return s
}

// Source is what an activity subject says: whose activity, of which kind.
type Source struct {
	Name Name
	Kind Kind
	Key  string // of a lease, and KeyCommands; "" else
	// From is the mark that a door puts last on what is published without credentials: who that was.
	// "" for a publisher with credentials. Its words are kept beside those of others, never in their place.
	From string
}

// The marks of those without credentials. A door puts its own before that of a session's programs, and after
// all else: so no publisher can have the mark of another.
const (
	fromMark = "~"
	maxFrom  = 64
	// FromInside is the mark of a session's own programs, at their activity port.
	FromInside = fromMark + "inside"
)

// FromAddress is the mark of another machine.
func FromAddress(at netip.Addr) string {
	return fromMark + strings.ReplaceAll(at.Unmap().WithZone("").String(), ".", "-")
}

// FromUser is the mark of a user of the machine, by its number.
func FromUser(uid uint32) string { return fromMark + strconv.FormatUint(uint64(uid), 10) }

// FromEdge is the mark of those who publish with credentials for that alone, by the configuration of `diapause nats-config`.
const FromEdge = fromMark + "edge"

// Whose says for people who has a mark.
func Whose(from string) string {
	who, inside := strings.CutSuffix(strings.TrimPrefix(from, fromMark), FromInside)
	switch _, err := strconv.ParseUint(who, 10, 32); {
	case inside, from == FromInside:
		return "from inside the session"
	case from == FromEdge:
		return "of a publisher"
	case err == nil:
		return "without credentials, of uid " + who
	}
	return "without credentials, of " + who
}

// Marked gives the subject that a door stores a message on, whose publisher it gives a mark. Subjects
// that no stream takes stay as they are, and so does a lease without a key, which no reader takes: its
// mark would be read as the key.
func Marked(subject, from string) string {
	about, ok := strings.CutPrefix(subject, SubjectActivity+".")
	if !ok || strings.Count(about, ".") < 2 {
		return subject
	}
	if k := Kind(about[strings.LastIndexByte(about, '.')+1:]); strings.Count(about, ".") == 2 && (k.Lease() || k == KindAgent) {
		return subject
	}
	if s, err := ParseActivitySubject(subject); err == nil && s.From == FromInside { // which another door has put there
		return strings.TrimSuffix(subject, FromInside) + from + FromInside
	}
	return subject + "." + from
}

// ParseActivitySubject reads a published or a stored activity subject.
func ParseActivitySubject(subject string) (Source, error) {
	rest, ok := strings.CutPrefix(subject, SubjectActivity+".")
	if !ok {
		rest, ok = strings.CutPrefix(subject, SubjectStored+".")
		if ok {
			_, rest, ok = strings.Cut(rest, ".")
		}
	}
	tenant, rest, hasID := strings.Cut(rest, ".")
	id, rest, hasKind := strings.Cut(rest, ".")
	kind, key, keyed := strings.Cut(rest, ".")
	key, from := cutMark(Kind(kind), key)
	keyed = keyed && (key != "" || from == "")
	if !ok || !hasID || !hasKind || keyed && key == "" || strings.Contains(key, ".") {
		return Source{}, fmt.Errorf("%w: %q, want %s.<tenant>.<session>.<kind>[.<key>]", ErrSubject, Published(subject), SubjectActivity)
	}
	s := Source{Name: Name{Tenant(tenant), SessionID(id)}, Kind: Kind(kind), Key: key, From: from}
	if err := s.validate(); err != nil {
		return s, fmt.Errorf("%w, in subject %q", err, Published(subject))
	}
	return s, nil
}

// cutMark parts what follows a kind into its key and a mark. A key may begin as a mark does, but those of
// `diapause nats-config` and of sessions stay marks without a key before them.
func cutMark(k Kind, rest string) (key, from string) {
	if rest == FromEdge || rest == FromInside {
		return "", rest
	}
	if i := strings.LastIndexByte(rest, '.'); i >= 0 && strings.HasPrefix(rest[i+1:], fromMark) {
		return rest[:i], rest[i+1:]
	}
	if keyless := k.Known() && !k.Lease() && k != KindAgent; keyless && strings.HasPrefix(rest, fromMark) {
		return "", rest
	}
	return rest, ""
}

// Published gives the subject that a message was published on, of the one that the stream
// makes of it, which publishers don't know.
func Published(subject string) string {
	if rest, ok := strings.CutPrefix(subject, SubjectStored+"."); ok {
		if _, own, ok := strings.Cut(rest, "."); ok {
			return SubjectActivity + "." + own
		}
	}
	return subject
}

func (s Source) validate() error {
	if err := s.Name.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrSubject, err)
	}
	if !s.Kind.Known() {
		return fmt.Errorf("%w %q: want one of %s", ErrKind, s.Kind, joined(Kinds()))
	}
	if s.From != "" && (!validKey(s.From) || len(s.From) > maxFrom || s.From == fromMark) {
		return fmt.Errorf("%w: want a mark of 2 to %d printable ASCII characters", ErrSubject, maxFrom)
	}
	if s.Kind == KindAgent {
		if !Trigger(s.Key).Known() {
			return fmt.Errorf("%w agent.%s: want agent.run_start, run_end, before, after or manual", ErrKind, s.Key)
		}
		return nil
	}
	if s.Kind == KindOutput && s.Key == KeyCommands {
		return nil
	}
	if s.Kind.Lease() != (s.Key != "") {
		return fmt.Errorf("%w: presence, busy and hold carry a key, the other kinds none", ErrSubject)
	}
	if !validKey(s.Key) {
		return fmt.Errorf("%w: want a key of 1 to %d printable ASCII characters", ErrSubject, maxKey)
	}
	return nil
}

// maxKey is what the key of a lease may have, in bytes.
const maxKey = 128

func validKey(key string) bool {
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' || c == '*' || c == '>' {
			return false
		}
	}
	return len(key) <= maxKey
}

// Duration is a time.Duration that JSON writes as "20s" and reads as
// ParseDuration does, or as a number of seconds.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err == nil {
		if ns := seconds * float64(time.Second); math.Abs(ns) < math.MaxInt64 {
			*d = Duration(ns)
			return nil
		}
		return fmt.Errorf("duration of %s seconds: want less than 292 years", data)
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("duration %s: want \"20s\" or a number of seconds", data)
	}
	v, err := ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %w", err)
	}
	*d = Duration(v)
	return nil
}

// ReasonEnsure is the reason of the activity that `ensure` publishes.
const ReasonEnsure = "ensure"
