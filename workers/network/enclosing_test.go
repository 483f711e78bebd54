package network

import (
	"net/netip"
	"slices"
	"testing"
)

// In a container the host's own way out is a veth pair whose other end is the real host: neither that nor what
// is beside the container is reached, by both protocols and families, and what is behind it is.
func TestEnclosingHostIsNotReached(t *testing.T) {
	n := made(t, Options{})
	for _, c := range []struct{ near, far string }{{gatewayTo, peerAddress}, {gatewayTo6, peerAddr6}} {
		near, far := echo(t, inOutside, c.near), echo(t, inOutside, c.far)
		for _, protocol := range []string{"tcp", "udp"} {
			if got, err := ask(n, protocol, near, short); err == nil {
				t.Errorf("by %s it reaches %s, on the other end of the host's uplink: %q", protocol, near, got)
			}
			if _, err := ask(n, protocol, far, long); err != nil {
				t.Errorf("by %s it doesn't reach %s, which is a route away: %v", protocol, far, err)
			}
		}
	}
}

func TestEnclosing(t *testing.T) {
	got, err := enclosing()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"203.0.113.0/24", "2001:db8::/64"} {
		if !slices.Contains(got, netip.MustParsePrefix(want)) {
			t.Errorf("it is enclosed by %v, want %s among them", got, want)
		}
	}
}
