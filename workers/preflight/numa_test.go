package preflight

import "testing"

func TestPolicyOf(t *testing.T) {
	const usual = `00400000 default file=/usr/bin/python3.11 mapped=31 N0=31 kernelpagesize_kB=4
7fff0000 default stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4
`
	for text, want := range map[string]string{
		"": "", usual: "", usual + "7f0000000000 interleave:0-1 anon=1 N0=1\n": "interleave:0-1", "7f0000000000 bind:1\n" + usual: "bind:1",
	} {
		if got := policyOf(text); got != want {
			t.Errorf("the policy of\n%s is %q, want %q", text, got, want)
		}
	}
}

func TestSeveralNodes(t *testing.T) {
	for list, want := range map[string]bool{"": false, "0": false, "0-1": true, "0,2": true} {
		if got := severalNodes(list); got != want {
			t.Errorf("of %q it says %t", list, got)
		}
	}
}
