package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// legacy is iptables-legacy of one family, whose rules nftables doesn't show. Its programs are asked,
// which Docker needs as well, and only where the kernel says that it has such rules.
type legacy struct {
	tables   string   // the kernel's list of tables that are in use
	programs []string // the first that is there
	family   string
	domain   int
	level    int
}

var legacies = []legacy{
	{"/proc/thread-self/net/ip_tables_names", []string{"iptables-legacy", "iptables"}, "ip", unix.AF_INET, unix.IPPROTO_IP},
	{"/proc/thread-self/net/ip6_tables_names", []string{"ip6tables-legacy", "ip6tables"}, "ip6", unix.AF_INET6, unix.IPPROTO_IPV6},
}

// used reports whether there are rules that filter.
func (l legacy) used() bool {
	b, err := os.ReadFile(l.tables)
	return err == nil && slices.Contains(strings.Fields(string(b)), "filter")
}

// extent tells how many rules there are and where they begin and end, without a program: where it is
// the same, nothing was added or removed. It is empty where there are none.
func (l legacy) extent() string {
	if !l.used() {
		return ""
	}
	fd, err := unix.Socket(l.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	const getInfo = 64 // IPT_SO_GET_INFO, IP6T_SO_GET_INFO
	info := [84]byte{}
	size := uint32(len(info))
	copy(info[:], "filter")
	_, _, no := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(l.level), getInfo, uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if no != 0 {
		return ""
	}
	return string(info[:])
}

// legacyWait bounds the wait for one call, which waits for others.
const legacyWait = 5 * time.Second

func (l legacy) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), legacyWait)
	defer cancel()
	for _, name := range l.programs {
		for _, dir := range []string{"", "/usr/sbin/", "/sbin/"} { // a daemon's PATH may lack these
			path, err := exec.LookPath(dir + name)
			if err != nil {
				continue
			}
			cmd := exec.CommandContext(ctx, path, append([]string{"-w"}, args...)...)
			cmd.Env = []string{"LC_ALL=C"}
			out, err := cmd.CombinedOutput()
			if err != nil {
				return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
			}
			return string(out), nil
		}
	}
	return "", fmt.Errorf("find %s: %w", strings.Join(l.programs, " or "), exec.ErrNotFound)
}

// The rules of ours, as iptables has them.
func legacyRules() [][]string {
	return [][]string{
		{dockerUser, "-i", prefix + "+", "-m", "comment", "--comment", comment, "-j", "ACCEPT"},
		{dockerUser, "-o", prefix + "+", "-m", "comment", "--comment", comment, "-j", "ACCEPT"},
	}
}

// owners reports whether the chain is there, how many rules of ours are in it, and whether others
// speak of sessions.
func (l legacy) owners() (there bool, ours int, foreign bool) {
	out, err := l.run("-S", dockerUser)
	if err != nil {
		return false, 0, false
	}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		sessions := slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, prefix) && w != comment })
		switch {
		case strings.Contains(line, "--comment "+comment+" "):
			ours++
		case sessions:
			foreign = true
		}
	}
	return true, ours, foreign
}

func admitByLegacy() error {
	var errs []error
	for _, l := range legacies {
		if !l.used() {
			continue
		}
		there, ours, foreign := l.owners()
		if !there || ours > 0 || foreign {
			continue
		}
		for _, r := range legacyRules() {
			_, err := l.run(append([]string{"-I"}, r...)...)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func retractByLegacy() error {
	var errs []error
	for _, l := range legacies {
		if !l.used() {
			continue
		}
		for _, ours, _ := l.owners(); ours > 0; {
			for _, r := range legacyRules() {
				_, _ = l.run(append([]string{"-D"}, r...)...) // there may be one less of a kind
			}
			_, left, _ := l.owners()
			if left >= ours {
				errs = append(errs, fmt.Errorf("remove the rules of %s: %d of %s stay", dockerUser, left, l.family))
				break
			}
			ours = left
		}
	}
	return errors.Join(errs...)
}

// block gives what iptables-legacy drops of what sessions send.
func (l legacy) block() *Block {
	out, err := l.run("-S")
	if err != nil || !strings.Contains(out, "-P FORWARD DROP\n") {
		return nil
	}
	if _, ours, _ := l.owners(); ours > 0 || accepts(out, "-i") && (accepts(out, "-o") || strings.Contains(out, "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n")) {
		return nil
	}
	chain := "FORWARD"
	if strings.Contains(out, "-N "+dockerUser+"\n") {
		chain = dockerUser
	}
	return &Block{Chain: l.family + " filter FORWARD", Fix: iptablesFix(l.programs[0], chain, wayOut(l.family))}
}

// accepts reports whether a rule lets packets of sessions' interfaces pass.
func accepts(rules, direction string) bool {
	for line := range strings.Lines(rules) {
		if strings.Contains(line, " "+direction+" "+prefix+"+ ") && strings.HasSuffix(line, "-j ACCEPT\n") {
			return true
		}
	}
	return false
}
