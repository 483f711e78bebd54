package schemas

import "net/netip"

// InsideSource is the address from which root passes on to a server of its machine what sessions publish at their activity
// ports. The embedded server counts those connections apart from root's own.
func InsideSource() netip.Addr { return netip.AddrFrom4([4]byte{127, 222, 42, 22}) }
