package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/diapause/diapause/schemas"
)

func TestFits(t *testing.T) {
	base := schemas.Fingerprint{Arch: "amd64", Kernel: "6.12.3-a", Driver: "criu", Engine: "criu 4.2.1", CPU: []string{"avx", "sse2"}, Base: "host"}
	for name, c := range map[string]struct {
		change func(need, have *schemas.Fingerprint)
		why    string
	}{
		"the same": {func(_, _ *schemas.Fingerprint) {}, ""},
		"more and newer": {func(_, h *schemas.Fingerprint) {
			h.CPU = []string{"avx", "avx2", "sse2"}
			h.Engine, h.Kernel = "criu 4.10", "6.13.0"
		}, ""},
		"another patch":        {func(n, _ *schemas.Fingerprint) { n.Kernel = "6.12.9-b" }, ""},
		"another driver":       {func(_, h *schemas.Fingerprint) { h.Driver = "docker" }, "driver"},
		"another arch":         {func(_, h *schemas.Fingerprint) { h.Arch = "arm64" }, "arm64"},
		"an older engine":      {func(_, h *schemas.Fingerprint) { h.Engine = "criu 4.1.1" }, "older"},
		"an older kernel":      {func(_, h *schemas.Fingerprint) { h.Kernel = "6.9.1" }, "kernel"},
		"a CPU without avx":    {func(_, h *schemas.Fingerprint) { h.CPU = []string{"sse2"} }, "avx"},
		"another root":         {func(n, _ *schemas.Fingerprint) { n.Base = "/roots/a" }, "root"},
		"a clean start":        {func(n, _ *schemas.Fingerprint) { *n = schemas.Fingerprint{Driver: "criu"} }, ""},
		"any driver":           {func(n, _ *schemas.Fingerprint) { *n = schemas.Fingerprint{} }, ""},
		"nothing can be older": {func(n, _ *schemas.Fingerprint) { n.Kernel = "7.0" }, "kernel"},
	} {
		need, have := base, base
		c.change(&need, &have)
		if why := Fits(need, have); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
	}
}

func TestChoose(t *testing.T) {
	host := func(name schemas.HostID, sessions int) Host {
		return Host{Host: schemas.Host{Host: name, Sessions: sessions, Seen: time.Unix(0, 0), Fingerprints: []schemas.Fingerprint{{Driver: "criu", Arch: "amd64"}}}}
	}
	gone := host("gone", 0)
	gone.Gone = true
	deaf := host("deaf", 0)
	deaf.Fingerprints = nil
	all := []Host{host("busy", 9), gone, deaf, host("free", 1)}
	need := schemas.Fingerprint{Driver: "criu"}
	for name, c := range map[string]struct {
		want Want
		host schemas.HostID
	}{
		"the freest":           {Want{Need: need}, "free"},
		"the preferred":        {Want{Need: need, Prefer: "busy"}, "busy"},
		"not one that is gone": {Want{Need: need, Prefer: "gone"}, "free"},
		"not one tried":        {Want{Need: need, Not: []schemas.HostID{"free"}}, "busy"},
		"any driver":           {Want{}, "free"},
	} {
		got, with, err := Choose(all, c.want)
		if err != nil || got != c.host || with.Driver != "criu" {
			t.Errorf("%s: host %q, driver %q, error %v; want %s", name, got, with.Driver, err, c.host)
		}
	}
	_, _, err := Choose(all, Want{Need: need, Not: []schemas.HostID{"free", "busy"}})
	if err == nil || !strings.Contains(err.Error(), "host gone: its lease has run out") || !strings.Contains(err.Error(), "host deaf: it can run no sessions") {
		t.Errorf("none left: error %v", err)
	}
	deaf.Lacks = map[schemas.DriverName]string{"docker": "the engine is away"}
	if _, _, err := Choose([]Host{deaf, all[0]}, Want{Need: schemas.Fingerprint{Driver: "docker"}}); err == nil || !strings.Contains(err.Error(), "host deaf: the engine is away; host busy: it has no driver \"docker\"") {
		t.Errorf("without an engine: error %v", err)
	}
	if _, _, err := Choose(nil, Want{}); err == nil {
		t.Error("a host was chosen of none")
	}
}

func TestPlan(t *testing.T) {
	head, op := &schemas.Head{Name: "x"}, &schemas.Op{ID: "o", Kind: schemas.OpSuspend}
	type r = schemas.SessionRecord
	for name, c := range map[string]struct {
		rec  r
		want Step
	}{
		"running, waits":            {r{State: schemas.Running, Head: head}, Leave},
		"running, may resume":       {r{State: schemas.Running, Head: head, OnLoss: schemas.LossResume}, TakeOver},
		"running, never captured":   {r{State: schemas.Running, OnLoss: schemas.LossResume}, Leave},
		"running, is being killed":  {r{State: schemas.Running, Head: head, OnLoss: schemas.LossResume, Op: &schemas.Op{Kind: schemas.OpKill}}, Leave},
		"in a checkpoint":           {r{State: schemas.Running, Head: head, OnLoss: schemas.LossResume, Op: &schemas.Op{Kind: schemas.OpCheckpoint}}, TakeOver},
		"suspending":                {r{State: schemas.Suspending, Op: op}, Adopt},
		"suspended":                 {r{State: schemas.Suspended, Head: head, OnLoss: schemas.LossResume}, Leave},
		"suspended, not yet reaped": {r{State: schemas.Suspended, Head: head, Op: op}, Leave},
		"resuming, any host loss":   {r{State: schemas.Resuming, Op: op}, Begin},
		"starting":                  {r{State: schemas.Starting, Op: op}, Begin},
		"exited":                    {r{State: schemas.Exited}, Leave},
		"a template, being made":    {r{State: schemas.Template, Op: &schemas.Op{Kind: schemas.OpRewrite, Source: head}}, Begin},
		"a template":                {r{State: schemas.Template, Head: head}, Leave},
		"deleted":                   {r{State: schemas.Deleted, Op: op}, Leave},
	} {
		if got := Plan(c.rec); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
