package tree_test

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/diapause/diapause/workers/tree"
)

func TestListenerAt(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	everywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())
	for _, asked := range []netip.AddrPort{at, everywhere} {
		if pid, name, ok := tree.ListenerAt(asked); !ok || pid != os.Getpid() || name == "" {
			t.Errorf("%s is held by %d, %q, %v; want %d", asked, pid, name, ok, os.Getpid())
		}
	}
	l.Close()
	if pid, name, ok := tree.ListenerAt(at); ok {
		t.Errorf("after it was closed %s is held by %d, %q", at, pid, name)
	}
}
