package preflight

import "testing"

func TestCountKeys(t *testing.T) {
	const text = `0521d49f I--Q---     1 perm 3f030000     0 65534 keyring   its own: 3
079004a1 I------     1 perm 1f0b0000     0     0 keyring   .builtin_trusted_keys: empty
0a9004a1 I------     1 perm 1f0b0000     0     0 asymmetri Debian Secure Boot CA: X509.rsa 3c45ae1a []
26e82a8a I--Q---     2 perm 3f010000     0     0 user      diapause:1: 6
2be82a8a I--Q---     2 perm 3f010000  1000     0 logon     fscrypt:1: 6
2ce82a8a I--Q---     2 perm 3f010000  1000     0 user      krb: 6
`
	for user, want := range map[uint64]int{0: 1, 1000: 2, 1: 0} {
		if got := countKeys(text, user); got != want {
			t.Errorf("user %d has %d keys, want %d", user, got, want)
		}
	}
}
