package network

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/diapause/diapause/workers/thread"
)

// tableName is the name of Diapause's tables, on the host and in sessions' networks.
const tableName = "diapause"

// Try makes a network and removes it, apart from the host's own: it tells whether this kernel and
// this process can.
func Try() error {
	return thread.Discard(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		n, err := Make(Options{})
		n.Close()
		return err
	})
}

// prepareHost does what all sessions of the host need, if it isn't done.
func prepareHost() error {
	if err := forward(); err != nil {
		return err
	}
	var err error
	for try := 0; ; try++ {
		if err = ensureTables(); err != nil {
			return err
		}
		// A Tidy that has seen no session yet may remove them again.
		if err = refreshUplinks(); !errors.Is(err, unix.ENOENT) || try == lookAgain {
			break
		}
	}
	_ = admit() // if that fails, FindBlock tells what stands in the way
	return err
}

const forwarding = "/proc/sys/net/ipv4/ip_forward"

func forward() error {
	b, err := os.ReadFile(forwarding)
	if err == nil && strings.TrimSpace(string(b)) == "1" {
		return nil
	}
	if err := os.WriteFile(forwarding, []byte("1"), 0); err != nil {
		return fmt.Errorf("turn forwarding on: %w", err)
	}
	return nil
}

// hostTables are the tables that sessions share on the host.
var hostTables = map[string]func(*nftables.Conn){tableName: fillTable, bridgesName: fillBridges}

// ensureTables makes those that aren't there. Who else makes one at the same time makes the same: one
// of the two is refused as a whole.
func ensureTables() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	for name, fill := range hostTables {
		_, err = c.ListTableOfFamily(name, nftables.TableFamilyINet)
		if err == nil {
			continue
		}
		if !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("list the tables of nftables: %w", err)
		}
		fill(c)
		if err := c.Flush(); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make the table %s: %w", name, err)
		}
	}
	return nil
}

func fillTable(c *nftables.Conn) {
	t := c.CreateTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return c.AddChain(&nftables.Chain{Name: name, Table: t, Type: kind, Hooknum: hook, Priority: priority})
	}
	// The guards let nothing pass that these two drop, unless rules that aren't ours have given
	// a packet another destination since.
	input := chain("input", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityMangle)
	add(c, input, fromSession, drop)
	forward := chain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityMangle)
	add(c, forward, fromSession, toSession, drop)
	add(c, forward, fromSession, clamp)
	add(c, forward, toSession, clamp)
	leave := chain("leave", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	masquerade := match{&expr.Masq{}}
	add(c, leave, notToSession, is4, from(pool), masquerade)
	add(c, leave, notToSession, is6, from(pool6), masquerade)
}
