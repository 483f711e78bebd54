package confine

import (
	"errors"
	"fmt"
	"math"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// denied are calls that no session may make, with any capabilities, unless it has a profile
// of its own or none. The value is the error that programs see.
var denied = map[string]unix.Errno{
	// Keyrings are the kernel's, not a namespace's.
	"add_key": unix.EPERM, "keyctl": unix.EPERM, "request_key": unix.EPERM,
	"bpf": unix.EPERM, "perf_event_open": unix.EPERM,
	// A handle names files outside the session's root.
	"open_by_handle_at": unix.EPERM,
	// It stops the kernel in the middle of a copy.
	"userfaultfd": unix.EPERM,
	// A session that uses it can't be captured. Programs fall back to other calls.
	"io_uring_setup": unix.EPERM, "io_uring_enter": unix.EPERM, "io_uring_register": unix.EPERM,
	// Its flags are in memory, where no filter sees them. Programs fall back to clone.
	"clone3": unix.ENOSYS,
	// Of 32-bit programs: its arguments are in memory. Programs fall back to socket and others.
	"socketcall": unix.ENOSYS,
}

// flagged are calls whose first argument must not ask for a new user namespace: in one of its
// own root has every capability.
var flagged = []string{"clone", "unshare"}

// ruleSet is a profile as compile takes it.
type ruleSet struct {
	otherwise uint32 // the kernel's word for what no rule allows
	calls     map[string]*callRules
	i386      bool // 32-bit programs have the same rules; else all of their calls are refused
}

// callRules are those of one system call. The first that fits counts.
type callRules struct {
	rules []rule
}

type rule struct {
	action uint32
	args   []specs.LinuxSeccompArg // all must fit
}

// load reads a profile in Docker's format, or takes Docker's own if it is empty.
func load(profile string, capabilities uint64) (ruleSet, error) {
	like := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: names(capabilities)}}}
	var loaded *specs.LinuxSeccomp
	var err error
	if profile == "" {
		loaded, err = seccomp.GetDefaultProfile(like)
	} else {
		loaded, err = seccomp.LoadProfile(profile, like)
	}
	if err == nil && loaded == nil {
		err = errors.New("it has no default action and no system calls")
	}
	if err != nil {
		return ruleSet{}, err
	}
	rules, err := rulesOf(loaded)
	if err != nil {
		return rules, err
	}
	if profile == "" {
		rules.deny()
	}
	// Init holds what tells of the session's end: who stops it stops that.
	for _, request := range []uint64{unix.PTRACE_ATTACH, unix.PTRACE_SEIZE} {
		rules.first("ptrace", rule{action: errno(unix.EPERM), args: []specs.LinuxSeccompArg{
			{Index: 0, Value: request, Op: specs.OpEqualTo},
			// The kernel takes the lower half alone for a process id.
			{Index: 1, Value: math.MaxUint32, ValueTwo: 1, Op: specs.OpMaskedEqual},
		}})
	}
	return rules, nil
}

// deny adds what a session must not have though Docker's profile may allow it.
func (r *ruleSet) deny() {
	for name, e := range denied {
		r.calls[name] = &callRules{rules: []rule{{action: errno(e)}}}
	}
	for _, name := range flagged {
		r.first(name, rule{action: errno(unix.EPERM), args: []specs.LinuxSeccompArg{
			{Index: 0, Value: unix.CLONE_NEWUSER, ValueTwo: unix.CLONE_NEWUSER, Op: specs.OpMaskedEqual},
		}})
	}
}

// first puts a rule before the others of a call.
func (r *ruleSet) first(name string, add rule) {
	c := r.calls[name]
	if c == nil {
		c = &callRules{}
		r.calls[name] = c
	}
	c.rules = append([]rule{add}, c.rules...)
}

func rulesOf(p *specs.LinuxSeccomp) (ruleSet, error) {
	r := ruleSet{calls: map[string]*callRules{}}
	if len(p.Flags) > 0 || p.ListenerPath != "" {
		return r, errors.New("flags and listeners aren't supported")
	}
	var err error
	if r.otherwise, err = actionOf(p.DefaultAction, p.DefaultErrnoRet); err != nil {
		return r, err
	}
	native := len(p.Architectures) == 0
	for _, a := range p.Architectures {
		native = native || a == specs.ArchX86_64
		r.i386 = r.i386 || a == specs.ArchX86
	}
	if !native {
		return r, errors.New("it has no rules for x86-64")
	}
	for _, s := range p.Syscalls {
		action, err := actionOf(s.Action, s.ErrnoRet)
		if err != nil {
			return r, err
		}
		for _, a := range s.Args {
			if a.Index > 5 {
				return r, fmt.Errorf("a system call has no argument %d", a.Index)
			}
		}
		for _, name := range s.Names {
			c := r.calls[name]
			if c == nil {
				c = &callRules{}
				r.calls[name] = c
			}
			c.rules = append(c.rules, rule{action: action, args: s.Args})
		}
	}
	return r, nil
}

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// actionOf gives the kernel's word for an action.
func actionOf(a specs.LinuxSeccompAction, ret *uint) (uint32, error) {
	data := uint32(unix.EPERM)
	if ret != nil {
		if *ret > unix.SECCOMP_RET_DATA {
			return 0, fmt.Errorf("%d is no error number", *ret)
		}
		data = uint32(*ret)
	}
	switch a {
	case specs.ActAllow:
		return unix.SECCOMP_RET_ALLOW, nil
	case specs.ActErrno:
		return unix.SECCOMP_RET_ERRNO | data, nil
	case specs.ActKill, specs.ActKillThread:
		return unix.SECCOMP_RET_KILL_THREAD, nil
	case specs.ActKillProcess:
		return unix.SECCOMP_RET_KILL_PROCESS, nil
	case specs.ActTrap:
		return unix.SECCOMP_RET_TRAP, nil
	case specs.ActLog:
		return unix.SECCOMP_RET_LOG, nil
	}
	return 0, fmt.Errorf("the action %q isn't supported", a)
}
