package schemas

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Policy is what sessions are held to. What it leaves out is as the layer below says:
// that of a session lies above the rule that it was run with (--idle), above that of
// its class, above that of all, above the defaults, above what is built in.
type Policy struct {
	// Grace is how long nothing that counts has to happen before a suspend.
	Grace *Duration `json:"grace,omitempty"`
	// Never is true for sessions that aren't suspended for idleness.
	Never *bool `json:"never,omitempty"`
	// Counts are the kinds that count against idling, Wakes those that resume a
	// suspended session; each is the whole list.
	Counts []Kind `json:"counts,omitzero"`
	Wakes  []Kind `json:"wakes,omitzero"`
	// Wake are the classes of requests from outside that resume a suspended session, the whole list; those that
	// it leaves out are answered in its stead. What doesn't resume it doesn't keep it from being suspended either.
	Wake []WakeRule `json:"wake,omitzero"`
	// Ignore are the leases that don't count though their kind does: "busy.cpu".
	Ignore []string `json:"ignore,omitzero"`
	// Awake is how long a session runs at least after a resume.
	Awake *Duration `json:"awake,omitempty"`
	// Warn is how long before a suspend for idleness a "warning" event is published.
	Warn *Duration `json:"warn,omitempty"`
	// Ask has the session's users asked before a suspend for idleness.
	Ask *Ask `json:"ask,omitempty"`
	// Quiet are hours in which nothing is suspended for idleness or age.
	Quiet []Hours `json:"quiet,omitzero"`
	// Life is how long a session runs in one go; then it is suspended as if it were
	// idle, used or not, but for leases. 0 is no limit.
	Life *Duration `json:"life,omitempty"`
	// Breaker is how many failed suspends in a row stop further ones, Backoff the least
	// time between a failed one and the next.
	Breaker *int      `json:"breaker,omitempty"`
	Backoff *Duration `json:"backoff,omitempty"`
	// OnBreaker is what becomes of a session whose breaker opened, where it was not
	// said when it was run: keep or stop.
	OnBreaker OnBreaker `json:"on_suspend_failure,omitempty"`
	// OnResume is what becomes of a suspended session whose image is proven to be of no use,
	// where it was not said when it was run: keep or fresh.
	OnResume OnResume `json:"on_resume_failure,omitempty"`
	// Rehearse is which suspends are rehearsed.
	Rehearse Rehearse `json:"rehearse,omitempty"`
	// Redact is of what secrets are taken out.
	Redact Redact `json:"redact,omitempty"`
	// Score is what makes a session matter where there is no room for all.
	Score *Score `json:"score,omitempty"`
	// Keep is which snapshots are kept, in place of what the janitor was started with.
	Keep *Keep `json:"keep,omitempty"`
	// Checkpoints are the triggers that make a checkpoint.
	Checkpoints Triggers `json:"checkpoints,omitzero"`
	// Watermarks are how full a host may get; they are the same for all.
	Watermarks *Watermarks `json:"watermarks,omitempty"`
	// Slots is how many sessions each host has room for, in place of what it was started with; 0 is no
	// limit. It is the same for all.
	Slots *int `json:"slots,omitempty"`
	// Quota is how much a tenant may have.
	Quota *Quota `json:"quota,omitempty"`
}

// Ask is an event, "question", that is published For before a suspend for idleness. An answer
// is a hold named "defer": it puts the suspend off, by Defer at most, and all answers
// together by Times as much from when it was due.
type Ask struct {
	For   Duration `json:"for"`
	Defer Duration `json:"defer"`
	Times int      `json:"times"`
}

// AnswerKey is the key of the hold that answers a question.
const AnswerKey = "defer"

// Hours are hours of some days of the week, every week.
type Hours struct {
	Days []string `json:"days,omitempty"` // "mon" to "sun", on which they begin; all if none
	From string   `json:"from"`           // "08:00"
	To   string   `json:"to"`             // "18:00"; up to "24:00", or of the next day if it isn't after From
	Zone string   `json:"zone,omitempty"` // "Europe/Berlin"; UTC if empty
}

// Score is the weights of which a session's score is made; what is left out is built in.
type Score struct {
	Base     *float64 `json:"base,omitempty"`           // of every session
	IdleHour *float64 `json:"idle_hour,omitempty"`      // less for every hour that it is idle
	Command  *float64 `json:"command,omitempty"`        // more for every command that it was given
	Commands *int     `json:"commands_count,omitempty"` // of which so many count, 255 at most
	ByPerson *float64 `json:"by_person,omitempty"`      // more if a person made it
}

// Keep is which snapshots of a session are kept. What a session goes on from stays,
// under any of these, until Expire.
type Keep struct {
	Age    *Duration `json:"age,omitempty"`    // older ones go; 0 is no limit
	Count  *int      `json:"count,omitempty"`  // more than so many go; 0 is no limit
	Expire *Duration `json:"expire,omitempty"` // a session that has been suspended for so long is removed; 0 is never
	// Archive is after how long a terminal that is suspended, or has ended, is archived; 0 is never. It is in place of
	// Expire then, which removes nothing that is archived.
	Archive *Duration `json:"archive,omitempty"`
	// DropMemory is after how long in the archive the memory and files of a session are dropped; 0 is never. It can't be
	// resumed then. What others need stays until they don't.
	DropMemory *Duration `json:"drop_memory,omitempty"`
}

// Watermarks are how full a host may be before the sessions that matter least are
// suspended though their grace isn't over, each between 0 and 1; 0 is no limit.
type Watermarks struct {
	Sessions *float64 `json:"sessions,omitempty"` // of those that it has room for
	Memory   *float64 `json:"memory,omitempty"`   // in use
	Pressure *float64 `json:"pressure,omitempty"` // time for which some task waited for memory (PSI)
}

// Over gives the policy with another below it: what p leaves out is as below says.
func (p Policy) Over(below Policy) Policy {
	overlay(reflect.ValueOf(&below).Elem(), reflect.ValueOf(p))
	return below
}

// overlay sets what is given in src; of the parts that are structs again, each field.
func overlay(dst, src reflect.Value) {
	for i := range src.NumField() {
		from, to := src.Field(i), dst.Field(i)
		switch {
		case from.IsZero():
		case from.Kind() == reflect.Pointer && from.Elem().Kind() == reflect.Struct && !to.IsNil():
			part := reflect.New(to.Type().Elem())
			part.Elem().Set(to.Elem())
			overlay(part.Elem(), from.Elem())
			to.Set(part)
		default:
			to.Set(from)
		}
	}
}

// Validate says what is wrong with the policy of a scope, all of it.
func (p Policy) Validate(scope PolicyScope) error {
	if t := scope.Tenant(); t != "" {
		rest := p
		if rest.Quota = nil; !reflect.ValueOf(rest).IsZero() {
			return fmt.Errorf("policy of tenant %s: it has a quota and nothing else", t)
		}
	}
	return together(
		between("grace", p.Grace, 100*time.Millisecond, MaxLease), between("awake", p.Awake, 0, 24*time.Hour),
		between("warn", p.Warn, 0, 24*time.Hour), atLeast("life", p.Life, time.Minute), between("backoff", p.Backoff, 0, 24*time.Hour),
		p.validateKinds(), p.Ask.validate(), p.validateQuiet(), p.validateFailure(), p.Rehearse.validate(), p.Redact.validate(), p.Score.validate(), p.Keep.validate(),
		p.Checkpoints.Validate(), validateWake(p.Wake), p.Watermarks.validate(scope), p.validateSlots(scope), p.Quota.validate(scope),
	)
}

func between(what string, d *Duration, least, most time.Duration) error {
	if d != nil && (time.Duration(*d) < least || time.Duration(*d) > most) {
		return fmt.Errorf("%s %s: want from %s to %s", what, *d, Duration(least), Duration(most))
	}
	return nil
}

// atLeast allows 0 for no limit.
func atLeast(what string, d *Duration, least time.Duration) error {
	if d == nil || *d == 0 || time.Duration(*d) >= least {
		return nil
	}
	return fmt.Errorf("%s %s: want at least %s, or 0 for no limit", what, time.Duration(*d), least)
}

func (p Policy) validateKinds() error {
	var errs []error
	for _, k := range append(slices.Clone(p.Counts), p.Wakes...) {
		if !k.Known() {
			errs = append(errs, fmt.Errorf("kind %q: want one of %s", k, joined(Kinds())))
		}
	}
	for _, k := range p.Wakes {
		if k.Lease() || k == KindAgent {
			errs = append(errs, fmt.Errorf("wakes %q: a lease wakes nothing", k))
		}
	}
	if p.Counts != nil && !slices.Contains(p.Counts, KindHold) {
		errs = append(errs, errors.New("counts: hold has to be among the kinds"))
	}
	for _, i := range p.Ignore {
		kind, key, ok := strings.Cut(i, ".")
		if !ok || key == "" || !validKey(key) || Kind(kind) != KindBusy && Kind(kind) != KindPresence {
			errs = append(errs, fmt.Errorf("ignore %q: want busy.KEY or presence.KEY, not a whole kind", i))
		}
	}
	return together(errs...)
}

func joined[T ~string](kinds []T) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}

func (a *Ask) validate() error {
	if a == nil || *a == (Ask{}) { // which is not to ask
		return nil
	}
	return together(
		between("ask for", &a.For, time.Second, time.Hour), between("ask defer", &a.Defer, time.Second, 24*time.Hour),
		inRange("ask times", &a.Times, 0, 100),
	)
}

func inRange[N cmp.Ordered](what string, n *N, least, most N) error {
	if n != nil && !(*n >= least && *n <= most) {
		return fmt.Errorf("%s %v: want from %v to %v", what, *n, least, most)
	}
	return nil
}

// maxQuiet is how many hours a policy may have.
const maxQuiet = 32

func (p Policy) validateQuiet() error {
	if len(p.Quiet) > maxQuiet {
		return fmt.Errorf("quiet: %d hours, want %d at most", len(p.Quiet), maxQuiet)
	}
	for _, h := range p.Quiet {
		if _, err := h.Span(); err != nil {
			return err
		}
		if h.From == h.To || h.From == "24:00" { // which Span takes, since it may have been set once
			return fmt.Errorf("quiet: hours %s-%s are none; all of a day is 00:00-24:00", h.From, h.To)
		}
	}
	return nil
}

func (p Policy) validateFailure() error {
	err := inRange("breaker", p.Breaker, 1, 100)
	if p.OnBreaker != "" && p.OnBreaker != BreakerKeep && p.OnBreaker != BreakerStop {
		err = together(err, fmt.Errorf("on_suspend_failure %q: want keep or stop", p.OnBreaker))
	}
	if !p.OnResume.Known() {
		err = together(err, fmt.Errorf("on_resume_failure %q: want keep or fresh", p.OnResume))
	}
	return err
}

func (s *Score) validate() error {
	if s == nil {
		return nil
	}
	return together(
		inRange("score base", s.Base, 0, 1e6), inRange("score idle_hour", s.IdleHour, 0, 1e6), inRange("score command", s.Command, 0, 1e6),
		inRange("score by_person", s.ByPerson, 0, 1e6), inRange("score commands_count", s.Commands, 0, 255),
	)
}

func (k *Keep) validate() error {
	if k == nil {
		return nil
	}
	return together(inRange("keep count", k.Count, 0, 1_000_000), atLeast("keep age", k.Age, time.Minute), atLeast("keep expire", k.Expire, time.Minute), atLeast("keep archive", k.Archive, time.Minute), atLeast("keep drop_memory", k.DropMemory, time.Second))
}

func (w *Watermarks) validate(scope PolicyScope) error {
	if w == nil {
		return nil
	}
	if scope != ScopeAll {
		return fmt.Errorf("watermarks of %s: set them in the policy of all", scope)
	}
	return together(inRange("watermarks sessions", w.Sessions, 0, 1), inRange("watermarks memory", w.Memory, 0, 1), inRange("watermarks pressure", w.Pressure, 0, 1))
}

// maxSlots bounds a number that was mistyped.
const maxSlots = 1_000_000

func (p Policy) validateSlots(scope PolicyScope) error {
	err := inRange("slots", p.Slots, 0, maxSlots)
	if p.Slots != nil && scope != ScopeAll {
		return together(err, fmt.Errorf("slots of %s: set them in the policy of all", scope))
	}
	return err
}
