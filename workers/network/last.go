package network

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// left is the alias of a veth pair's host end whose network is closed, until the kernel removes it.
const left = "diapause: closed"

// mark marks the network as closed. Tidy comes after it, and removes what the host has for sessions if it was
// the last: each of two that close at a time marks itself before it looks, so one of them sees none. One that is
// made has its veth pair before it looks for the host's tables, so it is seen, or makes them again.
func (n *Network) mark() error {
	link, err := netlink.LinkByName(deviceName(n.number))
	if err == nil {
		err = netlink.LinkSetAlias(link, left)
	}
	_, gone := errors.AsType[netlink.LinkNotFoundError](err)
	if err != nil && !gone && !errors.Is(err, unix.ENODEV) { // ENODEV: the kernel removed it since it was found
		return fmt.Errorf("mark %s as closed: %w", deviceName(n.number), err)
	}
	return nil
}

// Tidy removes what the host has for sessions, if no session of any Diapause on it has a network.
// One that was killed may have left that.
func Tidy() error {
	for {
		if used, err := anySession(); err != nil || used {
			return err
		}
		err := errors.Join(retract(), removeTables())
		used, usedErr := anySession()
		if used { // it was made since, and may end while it gets its tables again
			err = errors.Join(err, prepareHost())
		}
		if !used || err != nil {
			return errors.Join(err, usedErr)
		}
	}
}

// lookAgain is how often the interfaces or tables are listed again because they changed meanwhile.
const lookAgain = 20

func anySession() (bool, error) {
	links, err := netlink.LinkList()
	for try := 0; errors.Is(err, netlink.ErrDumpInterrupted) && try < lookAgain; try++ {
		links, err = netlink.LinkList() // the kernel may be removing a pair that was closed before
	}
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return true, nil // they change all the time: the last one to do so looks again
	}
	if err != nil {
		return false, fmt.Errorf("list the host's interfaces: %w", err)
	}
	for _, l := range links {
		if a := l.Attrs(); l.Type() == "veth" && strings.HasPrefix(a.Name, prefix) && a.Alias != left {
			return true, nil
		}
	}
	return false, nil
}

func removeTables() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	var errs []error
	for name := range hostTables {
		c.DelTable(&nftables.Table{Name: name, Family: nftables.TableFamilyINet})
		if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("remove the table %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
