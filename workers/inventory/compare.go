package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unknown is the value of an aspect that can't be seen.
const unknown = "?"

// Difference is one aspect in which two inventories differ.
type Difference struct {
	Object
	Program       string // the process's name
	Aspect        string
	Before, After string
	Class         Class
	Why           string // it matters
}

func (d Difference) String() string {
	where := fmt.Sprintf("%s (%s)", d.Program, d.Object)
	if d.PID == 0 {
		where = d.Thing
	}
	switch d.Aspect {
	case aspectThere:
		return where + " is missing"
	case aspectMore:
		return where + " was not there before"
	}
	return fmt.Sprintf("%s: %s is %q instead of %q", where, d.Aspect, d.After, d.Before)
}

// Compare lists in what after, of a copy, differs from before. closing says that its TCP
// connections are closed, which is said elsewhere.
func Compare(before, after *Inventory, closing bool) (all []Difference) {
	add := func(o Object, aspect, was, is string) {
		class, why, known := classOf(aspect)
		if !known {
			class = Refuse
		}
		all = append(all, Difference{Object: o, Program: before.programs[o.PID], Aspect: aspect, Before: was, After: is, Class: class, Why: why})
	}
	missing := map[int]bool{}
	for _, o := range unlike(before, after) {
		was, is := before.objects[o], after.objects[o]
		switch {
		case is == nil && missing[o.PID]:
			continue // of a process that is missing itself
		case is == nil:
			missing[o.PID] = o.Thing == ""
			add(o, aspectThere, "", "")
			continue
		}
		if _, connected := was.of("connection"); connected && closing {
			continue
		}
		for _, aspect := range aspects(was, is) {
			a, b := was.all(aspect), is.all(aspect)
			switch {
			case a == b, a == unknown, b == unknown:
			case aspect == aspectNumber && (a == "" || b == ""): // one that isn't compared
			case aspect == aspectPending && before.ticked(o.PID, a, b):
			case aspect == aspectPending && before.breaks(o.PID) && told(a, b):
				add(o, aspectTold, a, b)
			case renumbered(aspect, was, is):
			default:
				add(o, aspect, a, b)
			}
		}
	}
	for _, o := range unlike(after, before) {
		if before.objects[o] == nil && (o.Thing == "" || before.objects[Object{PID: o.PID}] != nil) {
			add(o, aspectMore, "", "")
		}
	}
	if !closing {
		for _, name := range slices.Sorted(maps.Keys(before.flows)) {
			if was, is := before.flows[name], after.flows[name]; is.most() < was.least() || is.least() > was.most() {
				add(Object{Thing: "the connection from " + name}, aspectFlow, fmt.Sprint(was.most()), fmt.Sprint(is.most()))
			}
		}
	}
	return all
}

// unlike lists, in order, the objects of an inventory that another lacks, or has other facts of: none of
// many thousand as a rule.
func unlike(inv, other *Inventory) (all []Object) {
	for o, f := range inv.objects {
		if is, there := other.objects[o]; !there || !slices.Equal(f, is) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, order)
	return all
}

// renumbered reports whether an aspect is of a file that an epoll waits for, and that has another
// number in a copy, since the process has closed the one that it gave.
func renumbered(aspect string, was, is facts) bool {
	var closed, instead []string
	concerned := false
	for _, f := range was {
		if f.aspect == aspectAwaited+" "+gone {
			closed = append(closed, f.value)
			concerned = concerned || f.aspect == aspect
		}
	}
	for _, f := range is {
		if strings.HasPrefix(f.aspect, aspectAwaited+" ") && was.all(f.aspect) != is.all(f.aspect) {
			instead = append(instead, f.value)
			concerned = concerned || f.aspect == aspect
		}
	}
	slices.Sort(closed)
	slices.Sort(instead)
	return concerned && len(closed) > 0 && slices.Equal(closed, instead)
}

// aspects lists those of two objects, each once.
func aspects(a, b facts) (all []string) {
	for _, f := range slices.Concat(a, b) {
		if !slices.Contains(all, f.aspect) {
			all = append(all, f.aspect)
		}
	}
	return all
}

// all gives the values of an aspect as one, in an order of their own: an object may have
// several locks.
func (f facts) all(aspect string) string {
	var values []string
	for _, x := range f {
		if x.aspect == aspect {
			values = append(values, x.value)
		}
	}
	slices.Sort(values)
	return strings.Join(values, "; ")
}

// ticked reports whether signals that are pending in a copy, in hexadecimal, are those of the
// original and of timers: time goes on between the two.
func (inv *Inventory) ticked(pid int, was, is string) bool {
	a, err := strconv.ParseUint(was, 16, 64)
	b, err2 := strconv.ParseUint(is, 16, 64)
	if err != nil || err2 != nil {
		return false
	}
	bit := func(n int) uint64 { return 1 << (n - 1) }
	timers := bit(int(unix.SIGALRM)) | bit(int(unix.SIGVTALRM)) | bit(int(unix.SIGPROF))
	// A process that is stopped is stopped by the same signal when it is let run.
	timers |= bit(int(unix.SIGSTOP)) | bit(int(unix.SIGTSTP)) | bit(int(unix.SIGTTIN)) | bit(int(unix.SIGTTOU))
	for o, f := range inv.objects {
		if n, ok := f.of("signal"); ok && o.PID == pid && strings.HasPrefix(o.Thing, "timer ") {
			if n, err := strconv.Atoi(n); err == nil && n > 0 && n <= 64 {
				timers |= bit(n)
			}
		}
	}
	return a&^b == 0 && b&^a&^timers == 0
}

// breaks reports whether a process has a lease that is being broken. A restore takes the lease again and
// breaks it again, so that its holder is told once more.
func (inv *Inventory) breaks(pid int) bool {
	for o, f := range inv.objects {
		if o.PID == pid && slices.ContainsFunc(f, func(x fact) bool {
			return x.aspect == "lock" && strings.HasPrefix(x.value, "LEASE BREAKING ")
		}) {
			return true
		}
	}
	return false
}

// told reports whether SIGIO is the one signal that is pending in a copy besides those of the original, in hexadecimal.
func told(was, is string) bool {
	a, err := strconv.ParseUint(was, 16, 64)
	b, err2 := strconv.ParseUint(is, 16, 64)
	return err == nil && err2 == nil && b == a|1<<(unix.SIGIO-1)
}
