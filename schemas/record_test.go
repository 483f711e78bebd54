package schemas

import (
	"fmt"
	"testing"
)

func TestLogged(t *testing.T) {
	r := SessionRecord{Tenant: "acme", Session: "s", Epoch: 3, Transition: Transition{Op: "over"}}
	if got, want := fmt.Sprint(r.Logged("err", "why")), "[session acme/s err why op over epoch 3]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Op = &Op{ID: "now"}
	if got, want := fmt.Sprint(r.Logged()), "[session acme/s op now epoch 3]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(SessionRecord{Tenant: "default", Session: "s"}.Logged()), "[session s epoch 0]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
