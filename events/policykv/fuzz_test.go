package policykv

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/diapause/diapause/events/session"
	"github.com/diapause/diapause/schemas"
)

// For any content of the bucket: what is taken for a policy is merged with what is built
// in, and the result has all parts that a decision needs.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		`{"scope":"all","version":1,"policy":{"grace":"1m","wakes":[],"quiet":[{"from":"08:00","to":"18:00"}]}}`,
		`{"scope":"class:web","policy":{"never":true,"ask":{"for":"30s","defer":"5m","times":3},"score":{"base":1}}}`,
		`{"scope":"session:acme/web-42","uid":"u","policy":{"grace":60,"counts":["hold"],"keep":{"age":"24h"},"checkpoints":["before:x"]}}`,
		`{"scope":"tenant:acme","policy":{"quota":{"running":2,"stored":"10G"}}}`,
		`{"scope":"defaults","policy":{},"defaults":[{"scope":"class:web","policy":{"grace":"1s"},"from":"x"},{"scope":"all","policy":{"life":"1h","slots":3},"from":"y"}]}`,
		`{"scope":"all","policy":{"watermarks":{"sessions":0.5},"quota":{}}}`, `{"scope":"session:","policy":{}}`, `{"scope":"class:","policy":null}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decode(data, 7)
		if err != nil || v.Validate() != nil {
			return
		}
		if again, err := json.Marshal(v.PolicyDocument); err != nil {
			t.Fatal(err)
		} else if w, err := decode(again, 7); err != nil || !reflect.DeepEqual(w.Policy.Lines(), v.Policy.Lines()) {
			t.Fatalf("%s is %q, and written again %q, %v", data, v.Policy.Lines(), w.Policy.Lines(), err)
		}
		c := NewCache(nil, nil)
		c.take(v)
		r := schemas.SessionRecord{Tenant: "acme", Session: "web-42", UID: v.UID, Class: "web"}
		if n, ok := v.Scope.Session(); ok {
			r.Tenant, r.Session = n.Tenant, n.Session
		}
		for _, class := range append(session.Classes(), "later") {
			r.Class = class
			p := c.For(r)
			if !p.Never && p.Grace <= 0 || p.Awake < 0 || p.Breaker < 1 {
				t.Fatalf("%s: a session of class %s is held to %+v", data, class, p)
			}
			if _, err := json.Marshal(c.Effective(v.Scope, r)); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			if v.Scope == schemas.ScopeDefaults {
				continue // they are never on trial
			}
			if tried := c.Trial(v.Scope, v.Policy)(r); !reflect.DeepEqual(tried, p) {
				t.Fatalf("%s: on trial it is %+v, and in earnest %+v", data, tried, p)
			}
		}
	})
}
