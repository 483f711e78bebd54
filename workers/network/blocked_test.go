package network

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// rules are what a test puts into chains by their name. The first chain is at the hook.
type rules struct {
	family nftables.TableFamily
	table  string
	policy nftables.ChainPolicy
	chains []string
	of     map[string][]match
}

// put makes the table in this thread's namespace.
func (r rules) put() (*nftables.Table, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, err
	}
	t := c.AddTable(&nftables.Table{Name: r.table, Family: r.family})
	made := map[string]*nftables.Chain{}
	for i, name := range r.chains {
		chain := &nftables.Chain{Name: name, Table: t}
		if i == 0 {
			chain.Type, chain.Hooknum, chain.Priority, chain.Policy = nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, &r.policy
		}
		made[name] = c.AddChain(chain)
	}
	for name, all := range r.of {
		for _, m := range all {
			add(c, made[name], m)
		}
	}
	return t, c.Flush()
}

func both(all ...match) match { return rule(all...) }

func in(name string) match { return through(expr.MetaKeyIIFNAME, expr.CmpOpEq, name, true) }

func out(name string) match { return through(expr.MetaKeyOIFNAME, expr.CmpOpEq, name, true) }

// established holds for packets of connections that are there already.
var established = match{
	&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
	&expr.Bitwise{
		SourceRegister: 1, DestRegister: 1, Len: 4, Xor: make([]byte, 4),
		Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED),
	},
	&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
}

var counter = match{&expr.Counter{}}

// likeDocker is what Docker has: it drops what it doesn't know, and has it first go through a chain
// of the host's owner.
func likeDocker(owner ...match) rules {
	return rules{
		nftables.TableFamilyIPv4, "filter", nftables.ChainPolicyDrop, []string{"FORWARD", "DOCKER", "DOCKER-USER"},
		map[string][]match{
			"FORWARD": {
				both(counter, jump("DOCKER-USER")),
				both(out("docker0"), established, counter, accept),
				both(out("docker0"), counter, jump("DOCKER")),
				both(in("docker0"), through(expr.MetaKeyOIFNAME, expr.CmpOpNeq, "docker0", true), counter, accept),
			},
			"DOCKER-USER": owner,
		},
	}
}

var (
	letOut = both(fromSession, out(uplink), counter, accept)
	letIn  = both(in(uplink), toSession, established, counter, accept)
)

// likeUFW is what ufw has.
func likeUFW(owner ...match) rules {
	return rules{
		nftables.TableFamilyIPv4, "filter", nftables.ChainPolicyDrop, []string{"FORWARD", "ufw-before-forward", "ufw-user-forward"},
		map[string][]match{
			"FORWARD": {both(counter, jump("ufw-before-forward"))},
			"ufw-before-forward": {
				both(established, counter, accept),
				both(protocol(unix.IPPROTO_ICMP), counter, accept),
				both(counter, jump("ufw-user-forward")),
			},
			"ufw-user-forward": owner,
		},
	}
}

func TestFindBlock(t *testing.T) {
	narrow := both(protocol(unix.IPPROTO_TCP), established, accept)
	const iptables = "iptables -I %s -i diap+ -o eth0 -j ACCEPT; iptables -I %s -i eth0 -o diap+ -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
	docker, ufw := strings.ReplaceAll(iptables, "%s", "DOCKER-USER"), strings.ReplaceAll(iptables, "%s", "FORWARD")
	const ip = "ip filter FORWARD"
	inet := func(policy nftables.ChainPolicy, all ...match) rules {
		return rules{nftables.TableFamilyINet, "fw", policy, []string{"through"}, map[string][]match{"through": all}}
	}
	for name, c := range map[string]struct {
		rules
		chain, fix string
	}{
		"docker":                    {likeDocker(), ip, docker},
		"docker, out alone":         {likeDocker(letOut), ip, docker},
		"docker, answers alone":     {likeDocker(letIn), ip, docker},
		"docker, one protocol's":    {likeDocker(letOut, narrow), ip, docker},
		"docker, dropped":           {likeDocker(both(fromSession, drop), letIn), ip, docker},
		"docker, one session's":     {likeDocker(both(in("diap0001"), accept), letIn), ip, docker},
		"docker, all but sessions'": {likeDocker(both(through(expr.MetaKeyIIFNAME, expr.CmpOpNeq, prefix, false), accept), letIn), ip, docker},
		"docker, both":              {likeDocker(letOut, letIn), "", ""},
		"ufw":                       {likeUFW(), ip, ufw},
		"ufw, out":                  {likeUFW(letOut), "", ""},
		"a table of its own": {inet(nftables.ChainPolicyDrop), "inet fw through", `nft 'insert rule inet fw through iifname "diap*" oifname "eth0" accept; ` +
			`insert rule inet fw through iifname "eth0" oifname "diap*" ct state established,related accept'`},
		"a table of its own, both": {inet(nftables.ChainPolicyDrop, letOut, letIn), "", ""},
		"accepts":                  {inet(nftables.ChainPolicyAccept), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := thread.Discard(func() error {
				if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
					return err
				}
				if _, err := c.put(); err != nil {
					return err
				}
				b, err := FindBlock()
				if err != nil {
					return err
				}
				if b == nil {
					b = &Block{}
				}
				would, err := WouldBlock()
				if err != nil {
					return err
				}
				// What the chain's owner says of sessions isn't mended.
				mended := []string{"docker"}
				if want := c.chain != "" && !slices.Contains(mended, name); (would != nil) != want {
					t.Errorf("when a network is made it would find %+v, want one: %v", would, want)
				}
				if b.Chain != c.chain || b.Fix != c.fix {
					t.Errorf("found %q, to be mended by\n%s\nwant %q, by\n%s", b.Chain, b.Fix, c.chain, c.fix)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// What is found is so, and what is named mends it. Where Docker's owner has said nothing of sessions,
// there is nothing to mend.
func TestBlockedByDocker(t *testing.T) {
	n, peer := made(t, Options{}), echo(t, inOutside, peerAddress)
	for _, c := range []struct {
		owner   []match
		blocked bool
	}{{nil, false}, {[]match{letOut}, true}, {[]match{letOut, letIn}, false}} {
		table, err := likeDocker(c.owner...).put()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { removeTable(t, table) })
		if c.blocked {
			if got, err := ask(n, "tcp", peer, short); err == nil {
				t.Errorf("with %d rules for sessions the outside says %q", len(c.owner), got)
			}
		} else {
			reaches(t, n, peer)
		}
		b, err := FindBlock()
		if err != nil {
			t.Fatal(err)
		}
		if (b != nil) != c.blocked {
			t.Errorf("with %d rules for sessions it finds %+v; want it blocked: %v", len(c.owner), b, c.blocked)
		}
		if b != nil && !strings.Contains(b.Fix, "-o "+uplink+" ") {
			t.Errorf("the way out is %s, and to mend it is %s", uplink, b.Fix)
		}
		removeTable(t, table)
	}
}

// removeTable removes a table that may be gone.
func removeTable(t *testing.T, table *nftables.Table) {
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	c.DelTable(table)
	_ = c.Flush()
}
