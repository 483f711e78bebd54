package confine

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/confine/limits"
)

// judge runs a filter as the kernel does.
func judge(t *testing.T, filter []byte, audit arch.AuditArch, number int, args ...uint64) uint32 {
	t.Helper()
	var raw []bpf.RawInstruction
	for b := filter; len(b) > 0; b = b[8:] {
		raw = append(raw, bpf.RawInstruction{Op: binary.NativeEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.NativeEndian.Uint32(b[4:])})
	}
	code, known := bpf.Disassemble(raw)
	if !known {
		t.Fatal("the filter has instructions that aren't known")
	}
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatal(err)
	}
	// The machine here reads words as the network has them.
	data := binary.BigEndian.AppendUint32(nil, uint32(number))
	data = binary.BigEndian.AppendUint32(data, uint32(audit))
	data = binary.BigEndian.AppendUint64(data, 0)
	for i := range 6 {
		var a uint64
		if i < len(args) {
			a = args[i]
		}
		data = binary.BigEndian.AppendUint32(data, uint32(a))
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func of(t *testing.T, s schemas.Spec) limits.Limits {
	t.Helper()
	l, err := Of(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const allowed uint32 = unix.SECCOMP_RET_ALLOW

func TestDefaultFilter(t *testing.T) {
	l := of(t, schemas.Spec{})
	eperm, enosys := errno(unix.EPERM), errno(unix.ENOSYS)
	for _, c := range []struct {
		call string
		args []uint64
		want uint32
		i386 uint32 // 0: the same
	}{
		{"read", nil, allowed, 0},
		{"openat", nil, allowed, 0},
		{"execve", nil, allowed, 0},
		{"chroot", nil, allowed, 0},
		{"seccomp", nil, allowed, 0},
		{"mount", nil, eperm, 0},
		{"pivot_root", nil, eperm, 0},
		{"setns", nil, eperm, 0},
		{"kexec_load", nil, eperm, 0},
		{"init_module", nil, eperm, 0},
		{"reboot", nil, eperm, 0},
		{"syslog", nil, eperm, 0},
		{"keyctl", nil, eperm, 0},
		{"add_key", nil, eperm, 0},
		{"request_key", nil, eperm, 0},
		{"bpf", nil, eperm, 0},
		{"perf_event_open", nil, eperm, 0},
		{"open_by_handle_at", nil, eperm, 0},
		{"userfaultfd", nil, eperm, 0},
		{"io_uring_setup", nil, eperm, 0},
		{"clone3", nil, enosys, 0},
		{"clone", []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, allowed, 0},
		{"clone", []uint64{unix.CLONE_NEWUSER | 17}, eperm, 0},
		{"clone", []uint64{unix.CLONE_NEWPID}, eperm, 0},
		{"unshare", []uint64{unix.CLONE_NEWUSER}, eperm, 0},
		{"unshare", []uint64{0}, eperm, 0},
		{"personality", []uint64{0xffffffff}, allowed, 0},
		{"personality", []uint64{0x40000}, eperm, 0},
		{"socket", []uint64{unix.AF_UNIX}, allowed, 0},
		{"socket", []uint64{unix.AF_INET6}, allowed, 0},
		{"socket", []uint64{unix.AF_ALG}, eperm, 0},
		{"socket", []uint64{unix.AF_VSOCK}, eperm, 0},
		{"socket", []uint64{unix.AF_INET | 1<<32}, eperm, eperm},
		{"ptrace", []uint64{unix.PTRACE_ATTACH, 1}, eperm, 0},
		{"ptrace", []uint64{unix.PTRACE_ATTACH, 1 | 1<<32}, eperm, 0},
		{"ptrace", []uint64{unix.PTRACE_SEIZE, 1}, eperm, 0},
		{"ptrace", []uint64{unix.PTRACE_ATTACH, 2}, allowed, 0},
		{"ptrace", []uint64{unix.PTRACE_TRACEME}, allowed, 0},
	} {
		if got := judge(t, l.Filter, arch.X86_64.ID, arch.X86_64.SyscallNames[c.call], c.args...); got != c.want {
			t.Errorf("%s%v gives %#x, want %#x", c.call, c.args, got, c.want)
		}
		want := c.want
		if c.i386 != 0 {
			want = c.i386
		}
		if got := judge(t, l.Filter, arch.I386.ID, arch.I386.SyscallNames[c.call], c.args...); got != want {
			t.Errorf("%s%v of a 32-bit program gives %#x, want %#x", c.call, c.args, got, want)
		}
		if got := judge(t, l.Filter, arch.X86_64.ID, arch.X86_64.SyscallNames[c.call]|x32Bit, c.args...); got != enosys {
			t.Errorf("%s%v of an x32 program gives %#x, want %#x", c.call, c.args, got, enosys)
		}
	}
	if got := judge(t, l.Filter, arch.I386.ID, arch.I386.SyscallNames["socketcall"], 1); got != enosys {
		t.Errorf("socketcall gives %#x", got)
	}
	if got := judge(t, l.Filter, arch.AARCH64.ID, 63); got != eperm {
		t.Errorf("a call of a foreign architecture gives %#x", got)
	}
	for _, number := range []int{-1, 1 << 20, 600} {
		if got := judge(t, l.Filter, arch.X86_64.ID, number); got == allowed {
			t.Errorf("the call %d is allowed", number)
		}
	}
}

// Every call of either table has the verdict of the rules, which the ranges must not change.
func TestRangesChangeNothing(t *testing.T) {
	rules, err := load("", common)
	if err != nil {
		t.Fatal(err)
	}
	l := of(t, schemas.Spec{})
	for _, a := range []*arch.Info{arch.X86_64, arch.I386} {
		for name, number := range a.SyscallNames {
			want := rules.otherwise
			if c := rules.calls[name]; c != nil {
				if i := slices.IndexFunc(c.rules, func(r rule) bool { return len(r.args) > 0 }); i >= 0 {
					continue
				}
				want = c.rules[0].action
			}
			if got := judge(t, l.Filter, a.ID, number); got != want {
				t.Errorf("%s of %s gives %#x, want %#x", name, a.Name, got, want)
			}
		}
	}
}

func TestComparisons(t *testing.T) {
	const big = 5 << 32
	profile := func(op string, value, two string) string {
		return `{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["getpid"],"action":"SCMP_ACT_ALLOW","args":[{"index":3,"value":` + value + `,"valueTwo":` + two + `,"op":"` + op + `"}]}]}`
	}
	for _, c := range []struct {
		op, value, two string
		fits, fails    []uint64
	}{
		{"SCMP_CMP_EQ", "21474836487", "0", []uint64{big + 7}, []uint64{7, big, big + 6, big + 8}},
		{"SCMP_CMP_NE", "21474836487", "0", []uint64{7, big, big + 6}, []uint64{big + 7}},
		{"SCMP_CMP_LT", "21474836487", "0", []uint64{0, 9, big + 6}, []uint64{big + 7, big + 8, 2 * big}},
		{"SCMP_CMP_LE", "21474836487", "0", []uint64{0, 9, big + 7}, []uint64{big + 8, 2 * big}},
		{"SCMP_CMP_GT", "21474836487", "0", []uint64{big + 8, 2 * big}, []uint64{0, 9, big + 7}},
		{"SCMP_CMP_GE", "21474836487", "0", []uint64{big + 7, 2 * big}, []uint64{0, 9, big + 6}},
		{"SCMP_CMP_MASKED_EQ", "4294967295", "1", []uint64{1, big + 1}, []uint64{0, 3, big}},
	} {
		l := of(t, schemas.Spec{Seccomp: profile(c.op, c.value, c.two)})
		for want, values := range map[uint32][]uint64{allowed: c.fits, errno(unix.EPERM): c.fails} {
			for _, v := range values {
				if got := judge(t, l.Filter, arch.X86_64.ID, unix.SYS_GETPID, 0, 0, 0, v); got != want {
					t.Errorf("%d %s %s gives %#x, want %#x", v, c.op, c.value, got, want)
				}
			}
		}
	}
}

func TestLoosened(t *testing.T) {
	l := of(t, schemas.Spec{CapAdd: []string{"sys_admin", "CAP_SYSLOG"}, CapDrop: []string{"ALL"}})
	if want := uint64(1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYSLOG); l.Capabilities != want {
		t.Errorf("capabilities %#x, want %#x", l.Capabilities, want)
	}
	for call, want := range map[string]uint32{"mount": allowed, "syslog": allowed, "bpf": errno(unix.EPERM), "keyctl": errno(unix.EPERM)} {
		if got := judge(t, l.Filter, arch.X86_64.ID, arch.X86_64.SyscallNames[call]); got != want {
			t.Errorf("with SYS_ADMIN and SYSLOG %s gives %#x, want %#x", call, got, want)
		}
	}
	for flags, want := range map[uint64]uint32{unix.CLONE_NEWNS: allowed, unix.CLONE_NEWNS | unix.CLONE_NEWUSER: errno(unix.EPERM)} {
		if got := judge(t, l.Filter, arch.X86_64.ID, unix.SYS_UNSHARE, flags); got != want {
			t.Errorf("with SYS_ADMIN unshare(%#x) gives %#x, want %#x", flags, got, want)
		}
	}
	if l := of(t, schemas.Spec{Seccomp: schemas.Unconfined}); l.Filter != nil || l.Digest() != "" {
		t.Error("unconfined has a filter")
	}
	if host, own := of(t, schemas.Spec{}), of(t, schemas.Spec{Network: "none"}); own.Capabilities^host.Capabilities != 1<<unix.CAP_NET_RAW {
		t.Errorf("capabilities %#x with the host's network, %#x with its own", host.Capabilities, own.Capabilities)
	}
}

// The capabilities are held to what was decided.
func TestCapabilities(t *testing.T) {
	const want = 0xa00405fb // as capsh shows what containers usually have, without mknod and net_raw
	if got := of(t, schemas.Spec{}).Capabilities; got != want {
		t.Errorf("a session has %#x, want %#x", got, uint64(want))
	}
}

func TestBadSpecs(t *testing.T) {
	for name, c := range map[string]struct {
		spec schemas.Spec
		want string
	}{
		"capability":   {schemas.Spec{CapAdd: []string{"NET_EVERYTHING"}}, "NET_EVERYTHING"},
		"dropped":      {schemas.Spec{CapDrop: []string{""}}, "no capability"},
		"no JSON":      {schemas.Spec{Seccomp: "/etc/profile.json"}, "seccomp profile"},
		"empty":        {schemas.Spec{Seccomp: "{}"}, "no default action"},
		"action":       {schemas.Spec{Seccomp: `{"defaultAction":"SCMP_ACT_NOTIFY"}`}, "SCMP_ACT_NOTIFY"},
		"architecture": {schemas.Spec{Seccomp: `{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_ARM"]}`}, "x86-64"},
		"argument":     {schemas.Spec{Seccomp: `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_ERRNO","args":[{"index":6,"value":1,"op":"SCMP_CMP_EQ"}]}]}`}, "argument 6"},
		"comparison":   {schemas.Spec{Seccomp: `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],"action":"SCMP_ACT_ERRNO","args":[{"index":1,"value":1,"op":"like"}]}]}`}, "like"},
		"flags":        {schemas.Spec{Seccomp: `{"defaultAction":"SCMP_ACT_ALLOW","flags":["SECCOMP_FILTER_FLAG_LOG"]}`}, "flags"},
	} {
		if _, err := Of(c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	for b.Loop() {
		l, err := Of(schemas.Spec{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(l.Filter)/8), "instructions")
	}
}
