package fleet

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/diapause/diapause/events/statekv"
	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/schemas/adoptspec"
)

// Fits says all that a host would need to run what needs a fingerprint; "" if it can. Need is
// an image's, or names a driver alone for a clean start.
func Fits(need, have schemas.Fingerprint) (why string) {
	switch {
	case need.Driver != "" && need.Driver != have.Driver:
		return fmt.Sprintf("it has no driver %q", need.Driver)
	case need.Arch != "" && need.Arch != have.Arch: // nothing else of it can be compared
		return fmt.Sprintf("it is %s, the image is of %s", have.Arch, need.Arch)
	}
	var all []string
	switch {
	case need.Base == "" || need.Base == have.Base:
	case need.Driver == adoptspec.Driver:
		all = append(all, fmt.Sprintf("it was adopted on host %s, and needs the pids and files there", need.Base))
	default:
		all = append(all, fmt.Sprintf("its root is %q, the image's was %q", have.Base, need.Base))
	}
	if older(engineVersion(have.Engine), engineVersion(need.Engine)) {
		all = append(all, fmt.Sprintf("its %s is older than the image's %s", have.Engine, need.Engine))
	}
	if older(firstTwo(have.Kernel), firstTwo(need.Kernel)) {
		all = append(all, fmt.Sprintf("its kernel %s is older than the image's %s", have.Kernel, need.Kernel))
	}
	var lacks schemas.Fingerprint
	for _, feature := range need.CPU {
		if _, ok := slices.BinarySearch(have.CPU, feature); !ok {
			lacks.CPU = append(lacks.CPU, feature)
		}
	}
	for _, lack := range []struct{ what, prefix string }{
		{"its CPU", ""}, {"its Diapause", schemas.DiapauseNeed}, {"its CRIU", schemas.CriuNeed},
	} {
		if names := lacks.Needs(lack.prefix); len(names) > 0 {
			all = append(all, lack.what+" lacks "+strings.Join(names, ", "))
		}
	}
	return strings.Join(all, " and ")
}

func engineVersion(s string) string {
	_, version, _ := strings.Cut(s, " ")
	return version
}

// firstTwo gives the part of a kernel's release that says what it can do.
func firstTwo(release string) string {
	parts := strings.SplitN(release, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// older compares versions number by number. What is no number counts as 0.
func older(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		if c := cmp.Compare(number(x, i), number(y, i)); c != 0 {
			return c < 0
		}
	}
	return false
}

func number(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, err := strconv.Atoi(parts[i])
	if err != nil {
		return 0
	}
	return n
}

// Host is one that a session may be placed on.
type Host struct {
	schemas.Host
	Gone     bool   // its lease has run out
	Cordoned bool   // an operator ordered that it takes no sessions
	SlotsBy  string // what says how many slots it has; "" if it does itself
	Coming   int    // sessions that move there, which it doesn't count yet
	// OfTenant counts the sessions of the tenant that asks which run there, or move there.
	OfTenant int
	// Beside is a session there that shares no host with the one that asks; "" if there is none.
	Beside schemas.SessionID
}

// Want says what a session needs of a host.
type Want struct {
	// Session is the one that is placed, and Placement what it asks of hosts.
	Session   schemas.Name
	Placement *schemas.Placement

	Need   schemas.Fingerprint
	Knows  []schemas.Feature // that the host's version has to know
	Prefer schemas.HostID    // taken if it fits: what it has kept of the session saves time
	Back   schemas.HostID    // where it runs if a move fails: it may be cordoned
	From   schemas.HostID    // where it is and doesn't stay
	Not    []schemas.HostID  // tried before, or lost
	Only   schemas.HostID    // nowhere else, if given
}

// NoHost is the error of Choose: no host can take a session.
type NoHost struct{ text string }

func (e *NoHost) Error() string { return e.text }

// Choose picks a host, and gives the fingerprint of the driver there. It prefers one with
// room, then, if that is to be spread, those with the fewest sessions of the tenant, then the
// preferred one, then the one with the fewest sessions. The error is a *NoHost, which says of each
// host all that it lacks. On a host without room the caller has to make some.
func Choose(hosts []Host, w Want) (schemas.HostID, schemas.Fingerprint, error) {
	var best *Host
	var with schemas.Fingerprint
	var why []string
	for _, h := range hosts {
		if w.Only != "" && w.Only != h.Host.Host {
			continue
		}
		fp, not := canTake(h, w)
		if not != "" {
			why = append(why, fmt.Sprintf("host %s: %s", h.Host.Host, not))
			continue
		}
		if best == nil || better(h, *best, w) {
			best, with = &h, fp
		}
	}
	if best != nil {
		return best.Host.Host, with, nil
	}
	if len(why) == 0 {
		why = []string{"none has announced itself; is a worker up?"}
		if w.Only != "" {
			why[0] = fmt.Sprintf("there is no host %s", w.Only)
		}
	}
	none := &NoHost{fmt.Sprintf("no host can take it (%s)", strings.Join(why, "; "))}
	return "", with, schemas.WithHint(none, "`diapause host ls` says which are cordoned, `diapause doctor` on a host what it lacks")
}

func canTake(h Host, w Want) (with schemas.Fingerprint, why string) {
	switch {
	case h.Gone:
		return with, "its lease has run out"
	case h.Host.Host == w.From:
		return with, "it is there already"
	case slices.Contains(w.Not, h.Host.Host):
		return with, "it was tried already"
	case h.Cordoned && h.Host.Host != w.Back:
		return with, "it is cordoned"
	}
	if why = asked(h, w); why != "" {
		return with, why
	}
	why = "it can run no sessions"
	for _, fp := range h.Fingerprints {
		if not := Fits(w.Need, fp); not == "" {
			return fp, ""
		} else if why = not; fp.Driver == w.Need.Driver {
			return with, why
		}
	}
	return with, cmp.Or(h.Lacks[w.Need.Driver], why)
}

// asked says what a host lacks of what a session's placement asks for.
func asked(h Host, w Want) string {
	var all []string
	knows := w.Knows
	if p := w.Placement; p != nil {
		knows = append(slices.Clone(knows), schemas.FeaturePlacement)
		for _, k := range slices.Sorted(maps.Keys(p.Labels)) {
			if has, ok := h.Labels[k]; !ok || has != p.Labels[k] {
				all = append(all, fmt.Sprintf("it lacks the label %s=%s", k, p.Labels[k]))
			}
		}
	}
	if h.Beside != "" {
		all = append(all, fmt.Sprintf("session %s is there, from which it stays apart", h.Beside))
	}
	for _, f := range knows {
		if !h.Understands(f) {
			all = append(all, fmt.Sprintf("its Diapause is too old for %q: update it", f))
		}
	}
	return strings.Join(all, " and ")
}

// full reports whether a host said that it has no room.
func (h Host) full() bool { return h.Slots > 0 && h.Sessions+h.Coming >= h.Slots }

func better(a, b Host, w Want) bool {
	if a.full() != b.full() {
		return b.full()
	}
	if w.Placement != nil && w.Placement.Spread && a.OfTenant != b.OfTenant {
		return a.OfTenant < b.OfTenant
	}
	if (a.Host.Host == w.Prefer) != (b.Host.Host == w.Prefer) {
		return a.Host.Host == w.Prefer
	}
	return cmp.Or(cmp.Compare(a.Sessions+a.Coming, b.Sessions+b.Coming), b.Seen.Compare(a.Seen)) < 0
}

// occupy takes the sessions that run or are under way into account, for one that is placed.
func occupy(hosts []Host, records iter.Seq[statekv.Versioned], w Want) {
	at := map[schemas.HostID]*Host{}
	for i := range hosts {
		at[hosts[i].Host.Host] = &hosts[i]
	}
	for r := range records {
		if r.Name() == w.Session || r.State == schemas.Deleted || r.State == schemas.Template {
			continue
		}
		coming := r.MovingTo()
		if h := at[coming]; h != nil {
			h.Coming++
		}
		if r.Tenant != w.Session.Tenant {
			continue
		}
		for _, h := range []*Host{at[r.Host], at[coming]} {
			if h == nil {
				continue
			}
			h.OfTenant++
			if apart(w.Placement, r.Session) || apart(r.Placement, w.Session.Session) {
				h.Beside = r.Session
			}
		}
	}
}

// apart reports whether a placement keeps its session apart from another.
func apart(p *schemas.Placement, from schemas.SessionID) bool {
	return p != nil && slices.Contains(p.Apart, from)
}

// WantOfMove says what a running session needs of the host that it moves to: the image will be
// one of its host as it is now. why says why it can't move at all.
func WantOfMove(hosts []Host, r schemas.SessionRecord) (w Want, why string) {
	w = Want{
		Session: r.Name(), Placement: r.Placement, Need: schemas.Fingerprint{Driver: r.Driver},
		Knows: append([]schemas.Feature{schemas.FeatureMove}, r.Needs...), From: r.Host,
	}
	i := slices.IndexFunc(hosts, func(h Host) bool { return h.Host.Host == r.Host })
	if i < 0 {
		return w, fmt.Sprintf("host %s, where it runs, isn't known", r.Host)
	}
	if !slices.Contains(hosts[i].Knows, schemas.FeatureMove) {
		return w, fmt.Sprintf("host %s, where it runs, has a Diapause that is too old for %q: update it", r.Host, schemas.FeatureMove)
	}
	for _, fp := range hosts[i].Fingerprints {
		if fp.Driver == r.Driver {
			w.Need = fp
		}
	}
	return w, ""
}
