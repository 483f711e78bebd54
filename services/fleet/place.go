package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/diapause/diapause/schemas"
)

// Fits says why a host can't run what needs a fingerprint; "" if it can. Need is an
// image's, or names a driver alone for a clean start.
func Fits(need, have schemas.Fingerprint) (why string) {
	switch {
	case need.Driver != "" && need.Driver != have.Driver:
		return fmt.Sprintf("it has no driver %q", need.Driver)
	case need.Arch != "" && need.Arch != have.Arch:
		return fmt.Sprintf("it is %s, the image is of %s", have.Arch, need.Arch)
	case need.Base != "" && need.Base != have.Base:
		return fmt.Sprintf("its root is %q, the image's was %q", have.Base, need.Base)
	case older(engineVersion(have.Engine), engineVersion(need.Engine)):
		return fmt.Sprintf("its %s is older than the image's %s", have.Engine, need.Engine)
	case older(firstTwo(have.Kernel), firstTwo(need.Kernel)):
		return fmt.Sprintf("its kernel %s is older than the image's %s", have.Kernel, need.Kernel)
	}
	for _, feature := range need.CPU {
		if _, ok := slices.BinarySearch(have.CPU, feature); !ok {
			return "its CPU lacks " + feature
		}
	}
	return ""
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
	Gone bool // its lease has run out
}

// Want says what a session needs of a host.
type Want struct {
	Need   schemas.Fingerprint
	Prefer schemas.HostID   // taken if it fits: what it has kept of the session saves time
	Not    []schemas.HostID // tried before, or lost
	Only   schemas.HostID   // nowhere else, if given
}

// Choose picks a host, and gives the fingerprint of the driver there. It prefers one with
// room, then the preferred one, then the one with the fewest sessions. The error says of each host why
// not. On a host without room the caller has to make some.
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
		if best == nil || better(h, *best, w.Prefer) {
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
	return "", with, schemas.WithHint(fmt.Errorf("no host can take it (%s)", strings.Join(why, "; ")), "`diapause doctor` on a host says what it lacks")
}

func canTake(h Host, w Want) (with schemas.Fingerprint, why string) {
	switch {
	case h.Gone:
		return with, "its lease has run out"
	case slices.Contains(w.Not, h.Host.Host):
		return with, "it was tried already"
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

// full reports whether a host said that it has no room.
func (h Host) full() bool { return h.Slots > 0 && h.Sessions >= h.Slots }

func better(a, b Host, prefer schemas.HostID) bool {
	if a.full() != b.full() {
		return b.full()
	}
	if (a.Host.Host == prefer) != (b.Host.Host == prefer) {
		return a.Host.Host == prefer
	}
	return cmp.Or(cmp.Compare(a.Sessions, b.Sessions), b.Seen.Compare(a.Seen)) < 0
}
