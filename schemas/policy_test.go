package schemas_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

var classes = []string{"web", "terminal"}

// What people write is what is shown, stored and read again.
func TestPolicyText(t *testing.T) {
	lines := []string{
		"ask=for:30s,defer:5m0s,times:3", "awake=1m0s", "backoff=10s", "breaker=5", "checkpoints=run_end,before:deploy", "counts=input,exec,hold",
		"grace=10m0s", "ignore=busy.cpu,presence.tcp", "keep=age:7d,count:10,expire:30d", "life=12h0m0s", "never=false", "on_suspend_failure=stop",
		"quiet=mon,tue,wed,thu,fri 08:00-18:00 Europe/Berlin; 22:00-06:00", "redact=recording", "rehearse=changed", "score=base:120,commands_count:50", "slots=10", "wakes=none", "warn=30s",
		"watermarks=sessions:0.8,memory:0.9",
	}
	var p schemas.Policy
	for _, line := range lines {
		if err := p.Assign(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Validate(schemas.ScopeAll); err != nil {
		t.Error(err)
	}
	if got := p.Lines(); !reflect.DeepEqual(got, lines) {
		t.Errorf("shown as %q\nwant %q", got, lines)
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := schemas.ReadPolicy(data)
	if err != nil || !reflect.DeepEqual(again, p) {
		t.Errorf("stored and read again: %v, %+v", err, again)
	}
	for _, key := range schemas.PolicyKeys() {
		if err := p.Assign(key + "="); err != nil {
			t.Error(err)
		}
	}
	if !reflect.DeepEqual(p, schemas.Policy{}) {
		t.Errorf("after everything was taken back: %+v", p)
	}
}

func TestPolicyDaysAreRanges(t *testing.T) {
	var p schemas.Policy
	if err := p.Assign("quiet=sat-mon,wed 08:00-09:00"); err != nil {
		t.Fatal(err)
	}
	if got := p.Quiet[0].Days; !reflect.DeepEqual(got, []string{"sat", "sun", "mon", "wed"}) {
		t.Errorf("%q", got)
	}
}

// What is wrong is refused, and the message says what would be right.
func TestPolicyErrors(t *testing.T) {
	for text, want := range map[string]string{
		"grace":                         "KEY=VALUE",
		"graze=1m":                      "want one of ask, awake",
		"grace=soon":                    `want a duration such as`,
		"grace=10ms":                    "want from 100ms",
		"grace=1":                       "grace: 1 of what? Want a unit: 1s, 1m or 1h",
		"ask=for:30,defer:1m":           "ask: for: 30 of what?",
		"keep=age:7":                    "age: 7 of what?",
		"grace=-5s":                     "want from 100ms",
		"never=maybe":                   "never: can't be a text: want true or false",
		"breaker=many":                  "breaker: can't be a text: want a whole number",
		"breaker=1.5":                   "breaker: can't be 1.5: want a whole number",
		"score=base:much":               "score: base can't be a text: want a number",
		"counts=input":                  "hold has to be among",
		"counts=hold,smell":             `kind "smell": want one of input`,
		"wakes=presence":                "wakes nothing",
		"slots=10":                      "set them in the policy of all",
		"slots=-1":                      "want from 0",
		"ignore=busy":                   "want busy.KEY",
		"ignore=hold.cli":               "want busy.KEY",
		"ask=for:30s,defer:0s":          "ask defer",
		"ask=30s":                       "want NAME:VALUE,NAME:VALUE of defer, for, times",
		"ask=for:30s,defer:1m,tim:1":    `ask: "tim" is no part of it: want one of defer, for, times`,
		"ask=for:0s,defer:0s,times:101": "want from 1s to 1h0m0s; ask defer 0s",
		"quiet=08:00":                   "hours to",
		"quiet=08:00-08:00":             "none; all of a day",
		"quiet=8-9":                     "such as 08:30",
		"quiet=08:00-25:00":             "from 00:00 to 24:00",
		"quiet=monday 08:00-09:00":      "mon-fri",
		"quiet=08:00-09:00 Mars/Sea":    "Europe/Berlin",
		"quiet=08:00-09:00 Local":       "hours in time zone \"Local\": want",
		"ignore=busy.\x1b[2J":           "want busy.KEY",
		"life=5s":                       "at least 1m0s",
		"breaker=0":                     "breaker 0: want from 1",
		"on_suspend_failure=cry":        "want keep or stop",
		"rehearse=often":                "want always, changed or never",
		"redact=all":                    "want off or recording",
		"score=base:-1":                 "score base",
		"keep=count:-1":                 "keep count",
		"checkpoints=lunch":             "checkpoint trigger",
		"checkpoints=every:1s":          "from 5s to 720h0m0s",
		"checkpoints=every:soon":        "want every:TIME",
		"checkpoints=every:1m,every:2m": "want one at most",
		"watermarks=sessions:0.5":       "set them in the policy of all",
	} {
		var p schemas.Policy
		err := p.Assign(text)
		if err == nil {
			err = p.Validate(schemas.ClassScope("web"))
		}
		if err == nil || !strings.Contains(err.Error()+"; "+schemas.HintOf(err), want) {
			t.Errorf("%s: %v; want something of %q", text, err, want)
		}
	}
	var p schemas.Policy
	if err := p.Assign("on-resume-failure=fresh"); err != nil || p.OnResume != schemas.ResumeFresh {
		t.Errorf("the name of the flag: %q, %v", p.OnResume, err)
	}
	if _, err := schemas.ReadPolicy([]byte(`{"graze":"1m"}`)); err == nil || !strings.Contains(err.Error(), "graze") {
		t.Errorf("a name that there isn't: %v", err)
	}
	if _, err := schemas.ReadPolicy([]byte(`{"grace":"1m"} {}`)); err == nil {
		t.Error("two policies are read as one")
	}
	for text, want := range map[string]string{
		`{"never":1}`: "never can't be a number: want true or false", `{"grace":"1m"`: "it ends too early", `{"counts":"hold"}`: "counts can't be a text: want an array",
		`{"score":{"base":"x"}}`: "score.base can't be a text: want a number", `{grace}`: "can't be read as JSON: invalid character",
	} {
		if _, err := schemas.ReadPolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want something of %q", text, err, want)
		}
	}
	if err := (schemas.Policy{}).Validate(schemas.ScopeAll); err != nil {
		t.Errorf("nothing set: %v", err)
	}
}

func TestPolicyScopes(t *testing.T) {
	for text, want := range map[string]string{
		"all": "all all", "class:web": "class:web class.web", "session:work": "session:work session.default.work",
		"acme/web-42": "session:acme/web-42 session.acme.web-42", "web": "session:web session.default.web",
	} {
		s, err := schemas.ParsePolicyScope(text, classes)
		if got := string(s) + " " + s.Key(); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "class:", "class:none", "session:", "a/b/c", "host:x"} {
		if s, err := schemas.ParsePolicyScope(text, classes); err == nil {
			t.Errorf("%q is taken for %q", text, s)
		}
	}
}

// Layers are put together field by field, and change nothing in each other.
func TestPolicyOver(t *testing.T) {
	var below, above schemas.Policy
	for p, texts := range map[*schemas.Policy][]string{
		&below: {"grace=1m", "warn=5s", "score=base:1,command:2", "ignore=busy.cpu"},
		&above: {"grace=2m", "score=command:3", "ignore=none", "never=false"},
	} {
		for _, text := range texts {
			if err := p.Assign(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := strings.Join(above.Over(below).Lines(), " ")
	if want := "grace=2m0s ignore=none never=false score=base:1,command:3 warn=5s"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if was := strings.Join(below.Lines(), " "); was != "grace=1m0s ignore=busy.cpu score=base:1,command:2 warn=5s" {
		t.Errorf("the layer below is %s now", was)
	}
}

// Hours hold by the clock of their place, over midnight and over changes of the clock.
// A document of defaults says nothing itself, and no other has any.
func TestPolicyDocument(t *testing.T) {
	grace, slots := schemas.Duration(time.Minute), 3
	ofWeb := []schemas.PolicyDefault{{Scope: schemas.ClassScope("web"), Policy: schemas.Policy{Grace: &grace}, From: "preset x"}}
	for name, c := range map[string]struct {
		doc  schemas.PolicyDocument
		want string
	}{
		"defaults":              {schemas.PolicyDocument{Scope: schemas.ScopeDefaults, Defaults: ofWeb}, ""},
		"none":                  {schemas.PolicyDocument{Scope: schemas.ScopeDefaults}, ""},
		"of a class":            {schemas.PolicyDocument{Scope: schemas.ClassScope("web"), Defaults: ofWeb}, "policy of class:web: it has defaults"},
		"with a policy":         {schemas.PolicyDocument{Scope: schemas.ScopeDefaults, Policy: schemas.Policy{Grace: &grace}}, "parts of its own"},
		"of a session":          {schemas.PolicyDocument{Scope: schemas.ScopeDefaults, Defaults: []schemas.PolicyDefault{{Scope: "session:a/b"}}}, "want all or a class"},
		"that a class can't be": {schemas.PolicyDocument{Scope: schemas.ScopeDefaults, Defaults: []schemas.PolicyDefault{{Scope: schemas.ClassScope("web"), Policy: schemas.Policy{Slots: &slots}}}}, "slots of class:web"},
	} {
		err := c.doc.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func TestHours(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	local := func(text string) time.Time {
		at, err := time.ParseInLocation("2006-01-02 15:04", text, berlin)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for name, c := range map[string]struct {
		hours schemas.Hours
		now   string
		want  string // empty: not quiet
	}{
		"in":                       {schemas.Hours{From: "08:00", To: "18:00"}, "2026-03-02 08:00", "2026-03-02 18:00"},
		"before":                   {schemas.Hours{From: "08:00", To: "18:00"}, "2026-03-02 07:59", ""},
		"at its end":               {schemas.Hours{From: "08:00", To: "18:00"}, "2026-03-02 18:00", ""},
		"over midnight":            {schemas.Hours{From: "22:00", To: "06:00"}, "2026-03-02 23:00", "2026-03-03 06:00"},
		"after midnight":           {schemas.Hours{From: "22:00", To: "06:00"}, "2026-03-03 05:59", "2026-03-03 06:00"},
		"of the day that it began": {schemas.Hours{Days: []string{"mon"}, From: "22:00", To: "06:00"}, "2026-03-03 05:00", "2026-03-03 06:00"},
		"not of that day":          {schemas.Hours{Days: []string{"tue"}, From: "22:00", To: "06:00"}, "2026-03-03 05:00", ""},
		"a whole day":              {schemas.Hours{From: "00:00", To: "24:00"}, "2026-03-02 12:00", "2026-03-03 00:00"},
		"the short night":          {schemas.Hours{From: "01:00", To: "04:00"}, "2026-03-29 01:30", "2026-03-29 04:00"},
		"the long night":           {schemas.Hours{From: "01:00", To: "04:00"}, "2026-10-25 03:30", "2026-10-25 04:00"},
	} {
		c.hours.Zone = "Europe/Berlin"
		span, err := c.hours.Span()
		if err != nil {
			t.Fatal(err)
		}
		end, ok := span.Until(local(c.now))
		if ok != (c.want != "") || ok && !end.Equal(local(c.want)) {
			t.Errorf("%s: %v, until %v", name, ok, end)
		}
	}
}

// All that is taken for a part of a policy is shown so that it is taken for the same
// again, and stored so as well.
func FuzzPolicyText(f *testing.F) {
	for _, seed := range []string{
		"grace=10m", "ask=for:30s,defer:5m,times:3", "quiet=sat-mon,wed 08:00-09:00 Europe/Berlin; 22:00-06:00", "wakes=none", "score=base:1e3",
		"counts=input,hold", "ignore=busy.a b", "watermarks=memory:0.5", "checkpoints=before:x,run_end", "never=true", "breaker=3", "keep=age:0s",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var p, again schemas.Policy
		if p.Assign(text) != nil || p.Validate(schemas.ScopeAll) != nil {
			return
		}
		for _, line := range p.Lines() {
			if err := again.Assign(line); err != nil {
				t.Fatalf("%q is shown as %q: %v", text, line, err)
			}
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		stored, err := schemas.ReadPolicy(data)
		if err != nil || !reflect.DeepEqual(stored.Lines(), p.Lines()) || !reflect.DeepEqual(again.Lines(), p.Lines()) {
			t.Fatalf("%q is %q, read again %q, stored %q, %v", text, p.Lines(), again.Lines(), stored.Lines(), err)
		}
	})
}
