package network

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// dockerUser is the chain that Docker leaves to the host's owner, and has each packet go through
// first. Docker makes it, and leaves what is in it.
const dockerUser = "DOCKER-USER"

// comment is on our rules there, for people and for us.
const comment = "diapause"

// userData is the comment as nft and iptables-nft write it: of type 0, its length, and the text with
// its end.
var userData = append([]byte{0, byte(len(comment) + 1)}, comment+"\x00"...)

// admit has Docker let pass what sessions send and the answers, where it drops what it forwards.
// What sessions may not reach our own tables have dropped before. A chain whose rules speak of sessions
// already, which aren't ours, is its owner's and stays as it is.
func admit() error { return errors.Join(admitByNft(), admitByLegacy()) }

// retract removes what admit added.
func retract() error { return errors.Join(retractByNft(), retractByLegacy()) }

// ownersChain is a chain DOCKER-USER of nftables, with its rules.
type ownersChain struct {
	*nftables.Chain
	ours    []*nftables.Rule
	foreign bool // others of its rules speak of sessions
}

func ownersChains(c *nftables.Conn) ([]ownersChain, error) {
	var all []ownersChain
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
		t := &nftables.Table{Name: "filter", Family: family}
		chain, err := c.ListChain(t, dockerUser)
		if err != nil || chain == nil { // the library gives no kind of error for one that isn't there
			continue
		}
		rules, err := c.GetRules(t, chain)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the rules of %s: %w", dockerUser, err)
		}
		o := ownersChain{Chain: chain}
		for _, r := range rules {
			if bytes.Equal(r.UserData, userData) {
				o.ours = append(o.ours, r)
				continue
			}
			s := read(r.Exprs)
			o.foreign = o.foreign || s.fromSession || s.toSession
		}
		all = append(all, o)
	}
	return all, nil
}

// admitByNft adds the rules where there are none. Two at a time may both do so: they do no harm twice, and
// only Tidy removes them, since it looks afterwards whether a session needs them.
func admitByNft() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	chains, err := ownersChains(c)
	if err != nil {
		return err
	}
	for _, o := range chains {
		if o.foreign || len(o.ours) > 0 {
			continue
		}
		for _, m := range []match{fromSession, toSession} {
			c.InsertRule(&nftables.Rule{Table: o.Table, Chain: o.Chain, UserData: userData, Exprs: rule(m, match{&expr.Counter{}}, accept)})
		}
		if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("add rules to %s: %w", dockerUser, err)
		}
	}
	return nil
}

func retractByNft() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	chains, err := ownersChains(c)
	if err != nil {
		return err
	}
	var errs []error
	for _, o := range chains {
		for _, r := range o.ours {
			err := c.DelRule(&nftables.Rule{Table: o.Table, Chain: o.Chain, Handle: r.Handle})
			if err == nil {
				err = c.Flush()
			}
			if err != nil && !errors.Is(err, unix.ENOENT) { // others may remove it, too
				errs = append(errs, fmt.Errorf("remove a rule of %s: %w", dockerUser, err))
			}
		}
	}
	return errors.Join(errs...)
}
