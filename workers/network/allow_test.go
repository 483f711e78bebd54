package network

import (
	"net/netip"
	"reflect"
	"testing"
)

func TestParseAllow(t *testing.T) {
	p := netip.MustParsePrefix
	for _, c := range []struct {
		list []string
		want []netip.Prefix
	}{
		{nil, nil},
		{[]string{"none"}, []netip.Prefix{}},
		{[]string{"192.0.2.7", "2001:db8::/32"}, []netip.Prefix{p("192.0.2.7/32"), p("2001:db8::/32")}},
		{[]string{"192.0.2.7/24"}, []netip.Prefix{p("192.0.2.0/24")}},
	} {
		if got, err := ParseAllow(c.list); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("ParseAllow(%q) = %v, %v; want %v", c.list, got, err, c.want)
		}
	}
	for _, bad := range [][]string{{""}, {"none", "192.0.2.1"}, {"example.com"}, {"192.0.2.0/33"}, {"fe80::1%eth0"}, {"::ffff:192.0.2.1"}} {
		if got, err := ParseAllow(bad); err == nil {
			t.Errorf("ParseAllow(%q) = %v, want an error", bad, got)
		}
	}
}

// TestTry makes and removes a network apart from the host's.
func TestTry(t *testing.T) {
	if err := Try(); err != nil {
		t.Error(err)
	}
}
