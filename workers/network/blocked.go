package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
)

// Block is a chain of the host that drops what it forwards, and what sessions send with it.
type Block struct {
	Chain string // its family, table and name: "ip filter FORWARD"
	Fix   string // the commands that accept what sessions send, and the answers
}

// Blocked has Docker let pass what sessions send, as a network that is made does, and gives what
// drops it all the same.
func Blocked() (*Block, error) {
	_ = admit() // what stands in the way is found
	return FindBlock()
}

// FindBlock looks for the first chain that drops by its policy what sessions send or the answers,
// and that has no rule to accept them; nil if there is none. Whether a rule is reached it doesn't tell.
func FindBlock() (*Block, error) { return find(false) }

// WouldBlock does the same, but for what is mended when a network is made.
func WouldBlock() (*Block, error) { return find(true) }

func find(mended bool) (*Block, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	chains, err := c.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list the chains of nftables: %w", err)
	}
	for _, chain := range chains {
		if !dropsForwarded(chain) || mended && isMended(c, chain.Table) {
			continue
		}
		out, answers, err := accepted(c, chain.Table, chains)
		if err != nil {
			return nil, err
		}
		if !out || !answers {
			return blockOf(chain, chains), nil
		}
	}
	for _, l := range legacies {
		if l.used() && (l.family == "ip" || forwards6()) {
			if there, _, foreign := l.owners(); mended && there && !foreign {
				continue
			}
			if b := l.block(); b != nil {
				return b, nil
			}
		}
	}
	return nil, nil
}

// isMended reports whether admit adds rules to a table.
func isMended(c *nftables.Conn, t *nftables.Table) bool {
	chains, err := ownersChains(c)
	return err == nil && slices.ContainsFunc(chains, func(o ownersChain) bool { return o.Table.Name == t.Name && o.Table.Family == t.Family && !o.foreign })
}

// families are those of packets of IP, as nftables calls them.
var families = map[nftables.TableFamily]string{
	nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyINet: "inet",
}

// dropsForwarded reports whether a chain drops what is forwarded and what no rule accepts. That of
// IPv6 counts if sessions have that.
func dropsForwarded(c *nftables.Chain) bool {
	return c.Hooknum != nil && *c.Hooknum == *nftables.ChainHookForward && families[c.Table.Family] != "" &&
		c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop && (c.Table.Family != nftables.TableFamilyIPv6 || forwards6())
}

// accepted reports whether a table has rules that accept what comes from sessions, and the answers.
func accepted(c *nftables.Conn, table *nftables.Table, chains []*nftables.Chain) (out, answers bool, err error) {
	for _, chain := range chains {
		if *chain.Table != *table {
			continue
		}
		rules, err := c.GetRules(table, chain)
		if err != nil {
			return false, false, fmt.Errorf("list the rules of %s %s: %w", families[table.Family], table.Name, err)
		}
		for _, r := range rules {
			s := read(r.Exprs)
			out = out || s.accepts && s.fromSession
			answers = answers || s.accepts && (s.toSession || s.ofConnection && !s.narrow)
		}
	}
	return out, answers, nil
}

// said is what a rule says.
type said struct {
	accepts                bool
	fromSession, toSession bool // it speaks of sessions' interfaces
	ofConnection           bool // it speaks of the state of a connection
	narrow                 bool // it speaks of anything else
}

func read(exprs []expr.Any) (s said) {
	var loaded expr.Any // what a comparison is about
	for _, e := range exprs {
		switch e := e.(type) {
		case *expr.Meta, *expr.Ct:
			loaded = e
		case *expr.Cmp:
			s.compares(loaded, e)
		case *expr.Match:
			s.ofConnection = s.ofConnection || e.Name == "conntrack" || e.Name == "state"
			s.narrow = s.narrow || e.Name != "conntrack" && e.Name != "state" && e.Name != "comment"
		case *expr.Verdict:
			s.accepts = e.Kind == expr.VerdictAccept
		case *expr.Bitwise, *expr.Counter: // of the state; of no packet
		default:
			s.narrow = true
		}
	}
	return s
}

func (s *said) compares(loaded expr.Any, c *expr.Cmp) {
	switch l := loaded.(type) {
	case *expr.Ct:
		if l.Key == expr.CtKeySTATE {
			s.ofConnection = true
			return
		}
	case *expr.Meta:
		sessions := c.Op == expr.CmpOpEq && len(c.Data) > 0 && strings.HasPrefix(prefix, string(c.Data))
		if sessions && l.Key == expr.MetaKeyIIFNAME {
			s.fromSession = true
			return
		}
		if sessions && l.Key == expr.MetaKeyOIFNAME {
			s.toSession = true
			return
		}
	}
	s.narrow = true
}

func blockOf(chain *nftables.Chain, all []*nftables.Chain) *Block {
	into := chain.Name
	for _, c := range all {
		if c.Name == dockerUser && *c.Table == *chain.Table {
			into = dockerUser
		}
	}
	family, table := families[chain.Table.Family], chain.Table.Name
	words := strings.NewReplacer("FAMILY", family, "TABLE", table, "CHAIN", into, "SESSIONS", prefix, "UPLINK", wayOut(family))
	fix := `nft 'insert rule FAMILY TABLE CHAIN iifname "SESSIONS*" oifname "UPLINK" accept; ` +
		`insert rule FAMILY TABLE CHAIN iifname "UPLINK" oifname "SESSIONS*" ct state established,related accept'`
	if program := programs[family]; program != "" && table == "filter" && chain.Name == "FORWARD" {
		fix = iptablesFix(program, into, wayOut(family))
	}
	return &Block{Chain: strings.Join([]string{family, table, chain.Name}, " "), Fix: words.Replace(fix)}
}

// programs make the rules of the table filter, by its family.
var programs = map[string]string{"ip": "iptables", "ip6": "ip6tables"}

// iptablesFix are the commands that have a chain accept what sessions send, and the answers.
func iptablesFix(program, chain, uplink string) string {
	return strings.NewReplacer("PROGRAM", program, "CHAIN", chain, "SESSIONS", prefix, "UPLINK", uplink).Replace(
		`PROGRAM -I CHAIN -i SESSIONS+ -o UPLINK -j ACCEPT; ` +
			`PROGRAM -I CHAIN -i UPLINK -o SESSIONS+ -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`)
}

// wayOut names the interface of the default route, for tables of a family.
func wayOut(table string) string {
	family := netlink.FAMILY_V4
	if table == "ip6" {
		family = netlink.FAMILY_V6
	}
	routes, err := netlink.RouteList(nil, family)
	if err != nil {
		return anyLink
	}
	for _, r := range routes {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
			return link.Attrs().Name
		}
	}
	return anyLink
}

// anyLink stands for the interface that leads out where there is none yet.
const anyLink = "eth0"
