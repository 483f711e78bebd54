package schemas

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Subject prefixes of version 1 of the wire.
const (
	SubjectActivity = "diapause.v1.activity" // .<tenant>.<session>.<kind>[.<key>]: what services publish
	SubjectStored   = "diapause.v1.stored"   // .<partition>.<tenant>.<session>.<kind>[.<key>]: what the stream makes of it
	SubjectSession  = "diapause.v1.session"  // .<tenant>.<session>: every revision of a record
	SubjectEvent    = "diapause.v1.event"    // .<tenant>.<session>.<type>
	SubjectCommand  = "diapause.v1.command"  // .<host>.<tenant>.<session>
	SubjectAPI      = "diapause.v1.api"      // .<verb>
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
)

// Lease reports whether activity of this kind has a lifetime and a key.
func (k Kind) Lease() bool { return k == KindPresence || k == KindBusy || k == KindHold }

// Known reports whether k is one of the kinds above.
func (k Kind) Known() bool {
	switch k {
	case KindInput, KindExec, KindHTTP, KindHeartbeat, KindOutput:
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
}

// IntentReconnect marks activity that a program caused, not a person: a client
// that reconnects by itself.
const IntentReconnect = "reconnect"

// Lifetimes of leases: what one without a ttl gets, and the most that is
// granted.
const (
	DefaultLease = 60 * time.Second
	MaxLease     = 30 * 24 * time.Hour
)

// ParseActivity reads a payload; an empty one is valid.
func ParseActivity(data []byte) (Activity, error) {
	var a Activity
	if len(data) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return Activity{}, fmt.Errorf("parse activity payload: %w", err)
	}
	if a.TTL < 0 {
		return Activity{}, fmt.Errorf("activity ttl %s: want a positive duration", time.Duration(a.TTL))
	}
	return a, nil
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
	Key  string // of a lease; "" else
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
	tokens := strings.Split(rest, ".")
	if !ok || len(tokens) < 3 || len(tokens) > 4 {
		return Source{}, fmt.Errorf("subject %q: want %s.<tenant>.<session>.<kind>[.<key>]", subject, SubjectActivity)
	}
	s := Source{Name: Name{Tenant(tokens[0]), SessionID(tokens[1])}, Kind: Kind(tokens[2])}
	if len(tokens) == 4 {
		s.Key = tokens[3]
	}
	return s, s.validate(subject)
}

func (s Source) validate(subject string) error {
	if err := s.Name.Validate(); err != nil {
		return fmt.Errorf("subject %q: %w", subject, err)
	}
	if !s.Kind.Known() {
		return fmt.Errorf("subject %q: unknown kind of activity %q", subject, s.Kind)
	}
	if s.Kind.Lease() != (s.Key != "") {
		return fmt.Errorf("subject %q: presence, busy and hold carry a key, the other kinds none", subject)
	}
	return nil
}

// Duration is a time.Duration that JSON writes as "20s" and reads as that or as
// a number of seconds.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err == nil {
		*d = Duration(seconds * float64(time.Second))
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("duration %s: want \"20s\" or a number of seconds", data)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %q: want the form \"20s\" or \"1h30m\"", s)
	}
	*d = Duration(v)
	return nil
}
