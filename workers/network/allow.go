package network

import (
	"fmt"
	"net/netip"
)

// ParseAllow reads what a session may reach: addresses and prefixes, or "none" alone, as
// Options.AllowOut has it.
func ParseAllow(list []string) ([]netip.Prefix, error) {
	switch {
	case len(list) == 0:
		return nil, nil
	case len(list) == 1 && list[0] == "none":
		return []netip.Prefix{}, nil
	}
	var all []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, addrErr := netip.ParseAddr(text)
			if addrErr != nil || a.Zone() != "" {
				return nil, fmt.Errorf("read %q: want an address, a prefix such as 192.0.2.0/24, or none", text)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Addr().Is4In6() {
			return nil, fmt.Errorf("read %q: write it as an address of IPv4", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}
