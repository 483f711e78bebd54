package criu

import "testing"

func TestAdvise(t *testing.T) {
	for user, warns := range map[string]bool{"": false, "0": false, "root": false, "0:5": false, "root:adm": false, "00": true, "daemon": true, "1000": true, "1000:0": true} {
		if got := advise(user, false); (len(got) > 0) != warns {
			t.Errorf("of user %q it says %v", user, got)
		}
		if got := advise(user, true); len(got) > 0 {
			t.Errorf("of user %q it says %v although limits can be read", user, got)
		}
	}
}
