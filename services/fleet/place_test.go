package fleet

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
)

func plain(id schemas.HostID, sessions int) Host {
	return Host{Host: schemas.Host{Host: id, Sessions: sessions, Knows: schemas.Features(), Fingerprints: []schemas.Fingerprint{{Driver: "criu"}}}}
}

// Where a session may go by what was ordered and by what it asks for; of what it can't have the
// error says, for each host, all that it lacks.
func TestChooseByPlacement(t *testing.T) {
	ssd := map[string]string{"disk": "ssd"}
	a, b, c := plain("a", 1), plain("b", 2), plain("c", 3)
	with := func(h Host, change func(*Host)) Host { change(&h); return h }
	for name, x := range map[string]struct {
		hosts []Host
		want  Want
		host  schemas.HostID // "" if none can take it
		why   string
	}{
		"not one that is cordoned":        {[]Host{with(a, func(h *Host) { h.Cordoned = true }), b}, Want{Prefer: "a"}, "b", ""},
		"all are cordoned":                {[]Host{with(a, func(h *Host) { h.Cordoned = true })}, Want{}, "", "host a: it is cordoned"},
		"back to one that is cordoned":    {[]Host{with(a, func(h *Host) { h.Cordoned = true }), b}, Want{Prefer: "a", Back: "a"}, "a", ""},
		"not where it is":                 {[]Host{a}, Want{From: "a"}, "", "host a: it is there already"},
		"with a label":                    {[]Host{a, with(b, func(h *Host) { h.Labels = ssd })}, Want{Placement: &schemas.Placement{Labels: ssd}}, "b", ""},
		"with another value":              {[]Host{with(a, func(h *Host) { h.Labels = map[string]string{"disk": "hdd"} })}, Want{Placement: &schemas.Placement{Labels: ssd}}, "", "it lacks the label disk=ssd"},
		"beside one to stay apart from":   {[]Host{with(a, func(h *Host) { h.Beside = "db" })}, Want{}, "", "session db is there"},
		"an older version":                {[]Host{with(a, func(h *Host) { h.Knows = nil }), b}, Want{Placement: &schemas.Placement{Spread: true}}, "b", ""},
		"older versions alone":            {[]Host{with(a, func(h *Host) { h.Knows = nil })}, Want{Knows: []schemas.Feature{schemas.FeatureMove}}, "", `too old for "move"`},
		"an older version, nothing asked": {[]Host{with(a, func(h *Host) { h.Knows = nil })}, Want{}, "a", ""},
		"an older version that would drop it": {
			[]Host{with(a, func(h *Host) { h.Knows = nil }), with(b, func(h *Host) { h.Knows = []schemas.Feature{schemas.FeatureMove} })},
			Want{Prefer: "a", Knows: []schemas.Feature{schemas.FeatureNetwork}}, "b", "",
		},
		"a feature of a later version":       {[]Host{a}, Want{Knows: []schemas.Feature{"later"}}, "", `host a: its Diapause is too old for "later"`},
		"spread":                             {[]Host{with(a, func(h *Host) { h.OfTenant = 1 }), b, c}, Want{Prefer: "a", Placement: &schemas.Placement{Spread: true}}, "b", ""},
		"spread over those with room":        {[]Host{a, with(b, func(h *Host) { h.OfTenant = 5 }), with(c, func(h *Host) { h.Slots = 3 })}, Want{Not: []schemas.HostID{"a"}, Placement: &schemas.Placement{Spread: true}}, "b", ""},
		"moves on their way take slots":      {[]Host{with(a, func(h *Host) { h.Slots, h.Coming = 2, 1 }), b}, Want{Prefer: "a"}, "b", ""},
		"moves on their way weigh as others": {[]Host{with(a, func(h *Host) { h.Coming = 4 }), b}, Want{}, "b", ""},
		"all that it lacks": {
			[]Host{with(a, func(h *Host) { h.Beside = "db" })}, Want{Placement: &schemas.Placement{Labels: ssd}}, "",
			"host a: it lacks the label disk=ssd and session db is there, from which it stays apart",
		},
	} {
		x.want.Need = schemas.Fingerprint{Driver: "criu"}
		got, _, err := Choose(x.hosts, x.want)
		var none *NoHost
		if got != x.host || (x.host == "") != errors.As(err, &none) || err != nil && !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s: host %q, error %v", name, got, err)
		}
	}
}

// Each host says all that its hardware and versions lack, CPU features by name.
func TestFitsSaysAll(t *testing.T) {
	need := schemas.Fingerprint{Arch: "amd64", Kernel: "6.12", Driver: "criu", Engine: "criu 4.2.1", CPU: []string{"avx", "avx512f", "sse2"}}
	have := schemas.Fingerprint{Arch: "amd64", Kernel: "6.1", Driver: "criu", Engine: "criu 4.2.1", CPU: []string{"sse2"}}
	if why := Fits(need, have); why != "its kernel 6.1 is older than the image's 6.12 and its CPU lacks avx, avx512f" {
		t.Error(why)
	}
	adopted := schemas.Fingerprint{Driver: "process", Base: "vm1"}
	if why := Fits(adopted, schemas.Fingerprint{Driver: "process", Base: "vm2"}); why != "it was adopted on host vm1, and needs the pids and files there" {
		t.Error(why)
	}
	if why := Fits(adopted, adopted); why != "" {
		t.Error(why)
	}
	need, have = have, need
	need.CPU = append(need.CPU, "criu:eventfd", "criu:sockopts", "diapause:layer")
	if why := Fits(need, have); why != "its Diapause lacks layer and its CRIU lacks eventfd, sockopts" {
		t.Error(why)
	}
}

// Sessions under way count where they go to as well, and staying apart holds both ways.
func TestOccupy(t *testing.T) {
	rec := func(tenant schemas.Tenant, id schemas.SessionID, host schemas.HostID, op *schemas.Op, apart ...schemas.SessionID) statekv.Versioned {
		r := schemas.SessionRecord{Tenant: tenant, Session: id, Host: host, State: schemas.Running, Op: op}
		if op != nil {
			r.State = schemas.Suspending
		}
		if apart != nil {
			r.Placement = &schemas.Placement{Apart: apart}
		}
		return statekv.Versioned{SessionRecord: r}
	}
	hosts := []Host{plain("a", 0), plain("b", 0), plain("c", 0), plain("d", 0)}
	template := rec("acme", "-template-db", "c", nil)
	template.State = schemas.Template
	occupy(hosts, slices.Values([]statekv.Versioned{
		template,
		rec("acme", "self", "c", nil),
		rec("acme", "db", "a", &schemas.Op{Kind: schemas.OpSuspend, Move: &schemas.Move{From: "a", To: "b"}}),
		rec("acme", "shy", "d", nil, "self"),
		rec("other", "db", "c", nil, "self"),
		rec("acme", "web", "unknown", nil),
	}), Want{Session: schemas.Name{Tenant: "acme", Session: "self"}, Placement: &schemas.Placement{Apart: []schemas.SessionID{"db"}}})
	for i, want := range []Host{{OfTenant: 1, Beside: "db"}, {Coming: 1, OfTenant: 1, Beside: "db"}, {}, {OfTenant: 1, Beside: "shy"}} {
		if h := hosts[i]; h.Coming != want.Coming || h.OfTenant != want.OfTenant || h.Beside != want.Beside {
			t.Errorf("host %s: coming %d, of the tenant %d, beside %q", h.Host.Host, h.Coming, h.OfTenant, h.Beside)
		}
	}
}

// A session of a host that is lost in a move goes on, with its image or without.
func TestPlanOfAMove(t *testing.T) {
	move := &schemas.Move{From: "a", To: "b"}
	for name, c := range map[string]struct {
		state schemas.State
		kind  string
		want  Step
	}{
		"its image is being written": {schemas.Suspending, schemas.OpSuspend, Adopt},
		"its image is durable":       {schemas.Suspended, schemas.OpReap, GoOn},
		"it is resumed there":        {schemas.Resuming, schemas.OpResume, Begin},
	} {
		r := schemas.SessionRecord{State: c.state, Head: &schemas.Head{Name: "x"}, Op: &schemas.Op{Kind: c.kind, Move: move}}
		if got := Plan(r); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// An image is refused everywhere if no host is left that might take it, those that are away among them.
func TestRefusedEverywhere(t *testing.T) {
	with := func(h Host, change func(*Host)) Host { change(&h); return h }
	a, b, at := plain("a", 1), plain("b", 1), time.Unix(1_800_000_000, 0)
	other := with(b, func(h *Host) { h.Fingerprints = []schemas.Fingerprint{{Driver: "docker"}} })
	for what, c := range map[string]struct {
		hosts   []Host
		refused []schemas.HostID
		want    bool
	}{
		"the only one":               {[]Host{a}, []schemas.HostID{"a"}, true},
		"both":                       {[]Host{a, b}, []schemas.HostID{"b", "a"}, true},
		"one of two":                 {[]Host{a, b}, []schemas.HostID{"a"}, false},
		"the other is gone":          {[]Host{a, with(b, func(h *Host) { h.Gone = true })}, []schemas.HostID{"a"}, false},
		"the other is cordoned":      {[]Host{a, with(b, func(h *Host) { h.Cordoned = true })}, []schemas.HostID{"a"}, false},
		"the other can't take it":    {[]Host{a, other}, []schemas.HostID{"a"}, true},
		"it refused, and is gone":    {[]Host{with(a, func(h *Host) { h.Gone = true })}, []schemas.HostID{"a"}, true},
		"it was started since":       {[]Host{with(a, func(h *Host) { h.Started = at.Add(1) })}, []schemas.HostID{"a"}, false},
		"it was started before":      {[]Host{with(a, func(h *Host) { h.Started = at })}, []schemas.HostID{"a"}, true},
		"no host is known":           {nil, []schemas.HostID{"a"}, false},
		"who refused isn't known":    {[]Host{b}, []schemas.HostID{"a"}, false},
		"none that could take it is": {[]Host{other}, []schemas.HostID{"a"}, false},
	} {
		if got := RefusedEverywhere(c.hosts, Want{Need: schemas.Fingerprint{Driver: "criu"}}, c.refused, at); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}
