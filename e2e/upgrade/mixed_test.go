package upgrade

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/diapause/diapause/e2e/stack"
	"github.com/diapause/diapause/schemas"
)

// long has the test wait for each session after each step, and look at images that come to a host of another
// version.
var long = os.Getenv("DIAPAUSE_LONG") != ""

// TestFleetIsUpgradedInParts replaces one part of a fleet after the other, while sessions on all of
// its hosts are suspended and resumed all the time: the parts that decide first, as the operators'
// page says, or with DIAPAUSE_LONG=1 the hosts first, too.
func TestFleetIsUpgradedInParts(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(f *fleet) []*part{
		"deciding first": func(f *fleet) []*part { return []*part{f.scheduler, f.up, f.a, f.b} },
		"hosts first":    func(f *fleet) []*part { return []*part{f.a, f.b, f.scheduler, f.up} },
	} {
		if !long && name != "deciding first" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			each := 1
			if long {
				each = 2
			}
			l := newLoad(f, each)
			l.goesOn()
			f.run("stays", f.b)
			f.must("suspend", "stays")
			f.reconfigure()
			for _, p := range order(f) {
				f.replace(p)
				if p == f.a {
					f.between()
				}
				if long {
					l.goesOn()
				}
				f.sound()
			}
			f.client.Store(newer)
			l.goesOn()
			l.end()
			for _, b := range l.sessions {
				f.counts(b.name)
				f.neverFailed(b.name)
			}
			f.counts("stays")
			f.must("audit", "--verify")
			l.tell()
		})
	}
}

// between is what the versions make of each other while host a is of the newer one and host b is not.
func (f *fleet) between() {
	f.t.Helper()
	if f.up.program == newer {
		f.client.Store(newer)
		f.refusesByName()
	}
	if long {
		f.imageOfOlder()
		f.imageOfNewer()
	}
}

// refusesByName asks for what the older host would leave out.
func (f *fleet) refusesByName() {
	f.t.Helper()
	for feature, args := range map[schemas.Feature][]string{
		schemas.FeatureNetwork:   {},
		schemas.FeatureDisk:      {"--network", "host", "--disk", "100M"},
		schemas.FeatureRights:    {"--network", "host", "--cap-add", "SYS_TIME"},
		schemas.FeatureRoot:      {"--network", "host", "--root", "oci:alpine:3"},
		schemas.FeatureRecording: {"--network", "host", "--tty", "--record", "output"},
	} {
		args = append([]string{"run", "--json", "--name", "refused", "--host", string(f.b.host)}, args...)
		r := f.do(append(args, "--", "sleep", "1000")...)
		if want := fmt.Sprintf("too old for %q", feature); r.Why() != schemas.ReasonNoHost || !strings.Contains(r.Refused().Text, want) {
			f.t.Errorf("%v: exit %d, want %q: %s%s", args, r.Code, want, r.Out, r.Err)
		}
	}
}

// imageOfOlder has a newer host resume what the older one suspended.
func (f *fleet) imageOfOlder() {
	f.t.Helper()
	f.gone(f.b, "stays")
	f.must("ensure", "stays")
	f.counts("stays")
	f.must("suspend", "stays")
	f.b.start()
}

// imageOfNewer has no older host resume what the newer one suspended: it waits for one that can.
func (f *fleet) imageOfNewer() {
	f.t.Helper()
	f.run("waits", f.a)
	f.counts("waits")
	f.must("suspend", "waits")
	if f.up.program == newer {
		f.must("host", "cordon", string(f.up.host))
		defer f.must("host", "uncordon", string(f.up.host))
	}
	f.gone(f.a, "waits")
	r := f.do("ensure", "--timeout", "20s", "waits")
	named := strings.Contains(r.Err, string(f.b.host)) && strings.Contains(r.Err, "lacks ")
	if f.up.program == older { // it refuses it, too, but may wait for host a and not say why
		named = named || r.Code == 5
	} else {
		named = named && strings.Contains(r.Err, "its Diapause lacks layer")
	}
	if r.Code == 0 || !named {
		f.t.Errorf("ensure: exit %d, %s; want what host %s lacks", r.Code, r.Err, f.b.host)
	}
	f.a.start()
	until(f.t, "it is resumed on its own host", func() error {
		if r := f.do("ensure", "waits"); r.Code != 0 {
			return fmt.Errorf("%s", r.Err)
		}
		return nil
	})
	f.counts("waits")
}

// gone stops a host and waits until that is known of a session's host.
func (f *fleet) gone(p *part, name string) {
	f.t.Helper()
	p.stop()
	until(f.t, "host "+string(p.host)+" is known to be gone", func() error {
		if v := f.view(name); v.HostGone == nil {
			return fmt.Errorf("session %s is %s on host %s", name, v.State, v.Host)
		}
		return nil
	})
}

// run starts a session that counts.
func (f *fleet) run(name string, at *part) {
	f.t.Helper()
	f.must("run", "--name", name, "--host", string(at.host), "--idle", "never", "--network", "host", "--", "sh", "-c", stack.Counting("0.1"))
}

// counts checks that a session has counted without a gap or a repeat, and goes on, by one process tree.
func (f *fleet) counts(name string) {
	f.t.Helper()
	f.must("ensure", name)
	count := func() int {
		n, err := stack.Counted(f.must("logs", name))
		if err != nil {
			f.t.Fatalf("session %s: %v", name, err)
		}
		return n
	}
	from := count()
	until(f.t, "session "+name+" counts on", func() error {
		if n := count(); n <= from {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	v := f.view(name)
	until(f.t, "session "+name+" has one process tree", func() error {
		if n := new(stack.Stack).Leaders(v.UID); n != 1 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// neverFailed fails the test if a session was ever failed.
func (f *fleet) neverFailed(name string) {
	f.t.Helper()
	var all []struct {
		State  schemas.State `json:"state"`
		Reason string        `json:"reason"`
	}
	if err := json.Unmarshal([]byte(f.must("history", "--json", name)), &all); err != nil {
		f.t.Fatalf("read the history of session %s: %v", name, err)
	}
	for _, r := range all {
		if r.State == schemas.Failed {
			f.t.Errorf("session %s was %s: %s", name, r.State, r.Reason)
		}
	}
}
