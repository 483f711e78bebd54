package recording

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/diapause/diapause/objectstore"
)

// Rule is an expression of which all matches were taken out of what was recorded before a moment.
type Rule struct {
	Expression string    `json:"expression"`
	Before     time.Time `json:"before"`
}

// Rules are those of a recording. They hold for what is stored later, too: by a host that was away.
type Rules struct {
	Run    string    `json:"run"`    // whose key they are encrypted to
	Sealed []byte    `json:"sealed"` // a list of Rule
	Before time.Time `json:"before"` // of the last one
	Epoch  uint64    `json:"epoch"`  // of the session then: runs of a higher one began after that
	Seen   []Ref     `json:"seen"`   // the last segment of each run that they were tried on, by its name alone
}

// maxRules bounds how many are kept, the last ones, and maxSealed what is read of them, in bytes.
const (
	maxRules  = 256
	maxSealed = 4 << 20
)

// NewRules encrypts rules to the key of a run.
func NewRules(all []Rule, run string, key age.Identity) (*Rules, error) {
	all = all[max(len(all)-maxRules, 0):]
	to, err := recipientOf(key)
	if err != nil {
		return nil, fmt.Errorf("keep what was redacted: %w", err)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("keep what was redacted: %w", err)
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, to)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("keep what was redacted: %w", err)
	}
	r := &Rules{Run: run, Sealed: sealed.Bytes()}
	for _, rule := range all {
		if rule.Before.After(r.Before) {
			r.Before = rule.Before
		}
	}
	return r, nil
}

// Open gives the rules. key is that of Run.
func (r *Rules) Open(key age.Identity) (all []Rule, err error) {
	in, err := age.Decrypt(bytes.NewReader(r.Sealed), key)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(in, maxSealed)).Decode(&all)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was redacted: %w: %w", ErrCorrupt, err)
	}
	return all, nil
}

// Tried says which segments the rules were tried on, of a session of that epoch.
func (r *Rules) Tried(all []Ref, epoch uint64) {
	r.Epoch, r.Seen = epoch, nil
	for _, at := range slices.SortedFunc(slices.Values(all), inOrder) {
		if n := len(r.Seen); n > 0 && r.Seen[n-1].Run == at.Run {
			r.Seen[n-1].Number = at.Number
			continue
		}
		r.Seen = append(r.Seen, Ref{Run: at.Run, Number: at.Number})
	}
}

// Late reports whether segments were stored that a redaction's rules weren't tried on and should be, and when the first of these begins.
func (r *Redaction) Late(ctx context.Context, store objectstore.Store, p Place, trusted func(signer string) []ed25519.PublicKey) (from time.Time, late bool, err error) {
	if r == nil || r.Rules == nil {
		return from, false, nil
	}
	all, err := list(ctx, store, p)
	if err != nil {
		return from, false, err
	}
	seen := map[string]uint64{}
	for _, at := range r.Rules.Seen {
		seen[at.Run] = at.Number
	}
	looked := ""
	for _, at := range all {
		epoch, _, _ := SplitRun(at.Run)
		if epoch > r.Rules.Epoch || at.Number <= seen[at.Run] || at.Run == looked {
			continue
		}
		s, err := head(ctx, store, p, at, trusted, r)
		if err != nil && !lasting(err) {
			return from, false, fmt.Errorf("look what was recorded before a redaction: %w", err)
		}
		if err != nil {
			continue // nothing is read of it
		}
		looked = at.Run // the others of the run are of later
		if begins := s.Header.From; begins.Before(r.Rules.Before) && (!late || begins.Before(from)) {
			from, late = begins, true
		}
	}
	return from, late, nil
}
