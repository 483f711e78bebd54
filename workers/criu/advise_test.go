package criu

import (
	"errors"
	"strings"
	"testing"

	"github.com/diapause/diapause/schemas"
	"github.com/diapause/diapause/workers/network"
)

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

func TestAdviseNetwork(t *testing.T) {
	got := adviseNetwork(&network.Block{Chain: "ip filter FORWARD", Fix: "accept it"}, nil)
	if len(got) != 1 || got[0].Code != schemas.WarnNetwork || !strings.Contains(got[0].Text, "ip filter FORWARD") || !strings.HasSuffix(got[0].Text, "accept it") {
		t.Errorf("of a host that drops what it forwards it says %+v", got)
	}
	if got := append(adviseNetwork(nil, nil), adviseNetwork(nil, errors.New("no rules"))...); len(got) > 0 {
		t.Errorf("of others it says %+v", got)
	}
}
